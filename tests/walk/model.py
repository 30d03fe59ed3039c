"""The expectation of a walk: the files of each committed epoch, what was published of them, what is damaged.

The model computes every answer anew from the postings, in plain Python. What it takes from the job is how it cut the
input into epochs, and it checks that the epochs together are the input from its beginning, each file once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.savepoint import Savepoint, savepoint_manifest
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.driver.events import WentBack
from tests.walk.bank import Book, Draft, Posting, Postings, Row, Table, read_output
from tests.walk.engine import Place

Damaging = Literal["cut", "flip", "delete"]
DAMAGES: tuple[Damaging, ...] = ("cut", "flip", "delete")

Names = tuple[str, ...]  # of files of the input


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint, and what the model knew when it was taken; `since` as in Model."""

    store: ObjectStore
    savepoint: Savepoint
    out: Path
    since: int | None
    epochs: Mapping[int, Names]
    outputs: Mapping[int, frozenset[str]]

    @property
    def begins_output(self) -> bool:
        """Return whether nothing has been written to the output yet, after a restore that began it anew."""
        return self.since == self.savepoint.epoch


class Model:
    """The model of the walk, as the module describes it."""

    def __init__(self, book: Book, place: Place, retained: int) -> None:
        self.epochs: dict[int, Names] = {}  #: {committed epoch: its files}
        self.damaged: set[Path] = set()  #: of what the checkpoints name
        self.subtasks: int | None = None  #: asked for while it runs, and not seen yet
        self._book = book
        self._place = place
        self._retained = retained
        self._files: list[Postings] = []
        self._outputs: dict[int, frozenset[str]] = {}  #: {committed epoch: its published files}
        self._generations: dict[int, int] = {}  #: {committed epoch: the start that committed it}
        self._since: int | None = None  #: the output was begun anew after this epoch
        self._named: dict[int, frozenset[Path]] = {}  #: {epoch with a manifest: files that make up its checkpoint}
        self._is_settled = True  #: nothing was cut short since the last start
        self._is_pruned = True  #: nothing was cut short since the last epoch
        self._read: dict[Path, tuple[object, list[Row]]] = {}
        self._read_manifests: dict[Path, tuple[object, Manifest | None]] = {}

    @property
    def log(self) -> CheckpointLog:
        """The job's checkpoint folder."""
        return CheckpointLog(ObjectStore(self._place.checkpoints))

    @property
    def out(self) -> ObjectStore:
        """The job's output."""
        return ObjectStore(self._place.out)

    @property
    def has_output(self) -> bool:
        """Return whether the output has been begun."""
        return self.out.exists(output_paths.OUTPUT_DESCRIPTION)

    @property
    def has_several_checkpoints(self) -> bool:
        """Return whether an older checkpoint exists; a job that keeps one only is damaged, too, but seldom enough."""
        return bool(self._named) and (len(self._named) > 1 or max(self._named) % 4 == 3)

    @property
    def newest_whole(self) -> int | None:
        """The newest checkpoint of which nothing is damaged."""
        return max((epoch for epoch, files in self._named.items() if not files & self.damaged), default=None)

    def add(self, draft: Draft) -> tuple[str, Postings]:
        """A file has come: its name, and what is in it."""
        name = _name(len(self._files))
        self._files.append(draft.postings(len(self._files)))
        return name, self._files[-1]

    def learn(self, committed: Sequence[Manifest], handed: Mapping[int, Names]) -> None:
        """Record committed epochs: each keeps its files and its outputs.

        committed: what was since the last call; handed: the files that Spark gave for an epoch.
        """
        for manifest in [*committed, *self._manifests()]:
            if manifest.epoch not in handed or not self._counts(manifest):
                continue
            self._generations[manifest.epoch] = manifest.generation
            names = handed[manifest.epoch]
            assert self.epochs.setdefault(manifest.epoch, names) == names, "another range under a committed number"
            assert manifest.records_in == self._book.readings * len(self._postings(names))
            if self._since is not None and manifest.epoch <= self._since:
                continue  # its output is elsewhere
            outputs = frozenset(file.final_path for file in manifest.outputs)
            assert self._outputs.setdefault(manifest.epoch, outputs) == outputs
        manifests = self._counted()
        latest = manifests[-1].epoch if manifests else -1
        assert sorted(self.epochs) == list(range(latest + 1)), "no committed epoch is gone"
        self._named = {manifest.epoch: self._files_of(manifest) for manifest in manifests}

    def undisturbed(self, *, is_new: bool) -> None:
        """A start or an epoch went as it should: everything is read. `is_new`: there was an epoch."""
        self._is_settled = True
        self._is_pruned = self._is_pruned or is_new
        covered = {name for names in self.epochs.values() for name in names}
        assert covered == {_name(number) for number in range(len(self._files))}, "something was left out"
        if is_new and self.subtasks is not None:
            assert {operator.parallelism for operator in self._manifests()[-1].operators} == {self.subtasks}
        if is_new:
            self.subtasks = None

    def cut_short(self) -> None:
        """A start has ended before its time."""
        self._is_settled = self._is_pruned = False
        self.subtasks = None

    def damage(self, file: int, how: Damaging, at: float) -> Path | None:
        """Change a file of the newest checkpoint, as a new file: what has another name for the old one keeps it."""
        named = self._named[max(self._named)] - self.damaged
        whole = sorted(path for path in named if path.exists())  # a start that was cut short may have deleted some
        if not whole:
            return None
        path = whole[file % len(whole)]
        data = bytearray(path.read_bytes())
        path.unlink()
        position = int(at * len(data))
        if how == "cut":
            path.write_bytes(data[:position])
        elif how == "flip":
            data[position] ^= 1
            path.write_bytes(data)
        self.damaged.add(path)
        return path

    def went_back(self, events: Sequence[WentBack], *, is_over: bool) -> None:
        """A start has met the damage, and gone on; `is_over`: it was cut short, perhaps before that."""
        to = -1 if self.newest_whole is None else self.newest_whole
        assert [event.to for event in events] in ([to], []), f"the newest whole checkpoint is {to}"
        if is_over and not events:
            return
        self.damaged.clear()
        self.epochs = {epoch: names for epoch, names in self.epochs.items() if epoch <= to}
        self._outputs = {epoch: names for epoch, names in self._outputs.items() if epoch <= to}
        self._generations = {epoch: number for epoch, number in self._generations.items() if epoch <= to}

    def snapshot(self) -> dict[str, int]:
        """{file: size} of all that a start with nothing whole leaves as it is."""
        stores = [(str(number), store.list()) for number, store in enumerate((self.log.store, self.out))]
        return {
            f"{number} {path}": size
            for number, listing in stores
            for path, size in listing
            if not path.startswith(paths.GENERATIONS)
        }

    def saved(self, store: ObjectStore, savepoint: Savepoint) -> Saved:
        """A savepoint that was taken now."""
        assert savepoint.epoch == max(self.epochs), "of the newest checkpoint"
        return Saved(store, savepoint, self._place.out, self._since, dict(self.epochs), dict(self._outputs))

    def fits(self, saved: Saved) -> bool:
        """Return whether the output holds what the job had written when the savepoint was taken."""
        if saved.begins_output:
            return all(epoch > saved.savepoint.epoch for epoch in self._published())
        has_same_past = {epoch: self.epochs.get(epoch) for epoch in saved.epochs} == saved.epochs
        is_whole = not any(path.is_relative_to(self._place.out) for path in self.damaged)
        is_same_output = (saved.out, saved.since) == (self._place.out, self._since)
        return is_same_output and has_same_past and is_whole and not self.can_tell(saved)

    def can_tell(self, saved: Saved) -> bool:
        """Return whether a restore can see that an output does not fit: by the files of the savepoint's epoch."""
        if saved.begins_output:
            return True
        manifest = savepoint_manifest(saved.store, saved.savepoint)
        if self._published().get(manifest.epoch, set()) - {file.final_path for file in manifest.outputs}:
            return True
        here = [(file, self.out.checksum(file.final_path)) for file in manifest.outputs]
        return any((found or self.out.checksum(file.staged_path)) != file.checksum for file, found in here)

    def restored(self, saved: Saved, place: Place, *, keeps_output: bool) -> None:
        """The job goes on from a savepoint."""
        self._since = self._since if keeps_output and not saved.begins_output else saved.savepoint.epoch
        self._place = place
        self.epochs, self._outputs = dict(saved.epochs), dict(saved.outputs)
        self._begin_anew()

    def start_over(self, place: Place) -> None:
        """The job begins anew in these folders."""
        self._since, self._place = None, place
        self.epochs, self._outputs = {}, {}
        self._begin_anew()

    def check(self) -> None:
        """Check the invariants that hold after every step, as long as nothing is damaged."""
        manifests = self._counted()
        epochs = [manifest.epoch for manifest in manifests]
        assert not epochs or epochs == list(range(epochs[0], epochs[-1] + 1)), "no gap between checkpoints"
        assert len(epochs) <= self._retained or not self._is_pruned, f"{epochs} are more than {self._retained}"
        for manifest in manifests:
            for operator in manifest.operators:
                for run in operator.runs:
                    assert self.log.store.size(run.path) == run.bytes, f"a run that is named is gone: {run.path}"
        covered = [name for epoch in sorted(self.epochs) for name in self.epochs[epoch]]
        assert covered == [_name(number) for number in range(len(covered))], "the first files, each once"
        self._check_output()

    def check_collected(self) -> None:
        """Nothing is left that is not named, and that no later epoch may come to name."""
        manifests, latest = self._manifests(), max(self.epochs, default=-1)
        named = {run.path for m in manifests for operator in m.operators for run in operator.runs}
        named |= {file.staged_path for m in manifests for file in m.outputs}
        left = [(path, paths.parse_run_path(path)) for path, _ in self.log.store.list(paths.RUNS)]
        left += [(path, output_paths.parse_staged_path(path)) for path, _ in self.out.list(output_paths.STAGING)]
        assert not [path for path, file in left if path not in named and (file is None or file.epoch <= latest)]

    def _check_output(self) -> None:
        """Each published epoch is whole, and the table after it is the answer; only the latest may be unpublished."""
        found = self._published()
        first, latest = 0 if self._since is None else self._since + 1, max(self.epochs, default=-1)
        assert all(first <= epoch <= latest for epoch in found), f"output of an epoch that is not committed: {found}"
        before = [posting for epoch in range(first) for posting in self._postings(self.epochs[epoch])]
        table: Table = {}
        postings, is_empty = list(before), True
        for epoch in range(first, latest + 1):
            if found.get(epoch, set()) != self._outputs[epoch]:
                assert epoch == latest, "an epoch is not published, and a later one is committed"
                assert not self._is_settled, "an epoch is not published"
                assert found.get(epoch, set()) < self._outputs[epoch]
                break
            self._book.fold(table, [row for name in sorted(self._outputs[epoch]) for row in self._rows(name)])
            if self._book.amount is not None:
                assert sum(row[self._book.amount] for row in table.values()) == 0, "money was made or lost"
            postings += self._postings(self.epochs[epoch])
            is_empty = False
        assert table == ({} if is_empty else self._book.expected(postings, before=before))

    def _published(self) -> dict[int, set[str]]:
        """{epoch: names} of the published files."""
        found: dict[int, set[str]] = {}
        for path in self._place.out.glob("part-*") if self._place.out.exists() else ():
            parsed = output_paths.parse_output_path(path.name)
            assert parsed is not None, path
            found.setdefault(parsed.first, set()).add(path.name)
        return found

    def _counted(self) -> list[Manifest]:
        return [manifest for manifest in self._manifests() if self._counts(manifest)]

    def _counts(self, manifest: Manifest) -> bool:
        """Not that of a start that was stopped before its commit until others had committed and dropped the epoch."""
        return self._generations.get(manifest.epoch, manifest.generation) == manifest.generation

    def _manifests(self) -> list[Manifest]:
        log = self.log
        found = (self._manifest(log, epoch) for epoch in log.epochs())
        return [manifest for manifest in found if manifest is not None]

    def _manifest(self, log: CheckpointLog, epoch: Epoch) -> Manifest | None:
        """One manifest, read anew if it has changed."""
        path = self._place.checkpoints / paths.manifest_path(epoch)
        stamp = _stamp(path)
        if path not in self._read_manifests or self._read_manifests[path][0] != stamp:
            self._read_manifests[path] = (stamp, log.get(epoch))
        return self._read_manifests[path][1]

    def _files_of(self, manifest: Manifest) -> frozenset[Path]:
        """All of a checkpoint; an output under the name that it has now."""
        root, out = self._place.checkpoints, self._place.out
        files = {root / paths.manifest_path(manifest.epoch)}
        files |= {root / run.path for operator in manifest.operators for run in operator.runs}
        if self._since is None or manifest.epoch > self._since:
            finals = [(out / file.final_path, out / file.staged_path) for file in manifest.outputs]
            files |= {final if final.exists() else staged for final, staged in finals}
        return frozenset(files)

    def _begin_anew(self) -> None:
        self.damaged.clear()
        self._generations.clear()
        self._is_settled = self._is_pruned = False
        self.subtasks = None

    def _postings(self, names: Iterable[str]) -> list[Posting]:
        return [posting for name in names for posting in self._files[int(name)]]

    def _rows(self, name: str) -> list[Row]:
        """The rows of a published file, read anew if it has changed."""
        path = self._place.out / name
        stamp = _stamp(path)
        if path not in self._read or self._read[path][0] != stamp:
            self._read[path] = (stamp, list(read_output(path)))
        return self._read[path][1]


def _stamp(path: Path) -> object:
    """Return a value that changes when the file changes."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _name(number: int) -> str:
    return f"{number:04}"
