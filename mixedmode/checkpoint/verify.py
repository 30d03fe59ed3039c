"""Verify checkpoints: the manifest, the runs and outputs that it names, and Spark's log up to it.

A checkpoint is whole if and only if a start can go on from it. So every file that the start would read is
verified before anything is changed. A file that several checkpoints name is read once. A failure of the store is not
damage: it is raised, and the next start verifies again.

With `reads`, all bytes are read, and a flipped bit is found. Without it, only missing files and files of another size
are found; a flipped bit is found later, when a subtask reads the run. Checksums are computed in a few threads, since
hashing and reading release the interpreter lock.

Invariants (tests/checkpoint/test_verify.py):
  I1  any single change of any file that a checkpoint names is found, and reported with the path of that file
  I2  a whole checkpoint has no damage, no matter which other files the folders hold
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import NewerFormatError
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.source_log import beginning, ends_of, log_of
from mixedmode.checkpoint.spark_log import entry_problem, source_entries_read
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import (
    CheckedCheckpoint,
    Damage,
    Epoch,
    GoingBack,
    Manifest,
    RunFile,
    SourceLog,
    StagedFile,
)
from mixedmode.errors import CorruptStateError

__all__ = ["Output", "Verifier", "file_problem", "source_log_problem"]

_THREADS = 4  # one thread reads while others hash; more threads only compete for the disk


class Output(Protocol):
    """An output, as far as verifying needs it; sinks.Sink implements this protocol."""

    @property
    def store(self) -> ObjectStore:
        """Return the store of the output's folder."""

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Return (path in `store`, problem) if a committed file can neither be read nor be published; else None."""


Check = Callable[[], Damage | None]


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies the checkpoints of one folder, once per start.  outputs: by name; files of other outputs are skipped.

    spark_listing: the names below spark/, relative to the checkpoint folder.
    """

    log: CheckpointLog
    outputs: Mapping[str, Output]
    reads: bool
    spark_listing: Sequence[str]
    goings_back: Sequence[GoingBack] = ()
    #: {identity of a check: its result}
    _known: dict[str, Damage | None] = field(default_factory=dict)

    def check(self, epoch: Epoch) -> tuple[Manifest | None, CheckedCheckpoint]:
        """Return the manifest of an epoch (None if it cannot be used at all), and the damages of its checkpoint.

        Raises NewerFormatError for a manifest that a later mixedmode wrote: going back would delete a whole checkpoint.
        """
        where = f"{self.log.store.url}/{paths.manifest_path(epoch)}"
        try:
            manifest = self.log.get(epoch)
        except NewerFormatError:
            raise
        except CorruptStateError as error:
            return None, CheckedCheckpoint(epoch, (Damage("manifest", where, _first_clause(error)),))
        if manifest is None:
            return None, CheckedCheckpoint(epoch, (Damage("manifest", where, "its manifest is missing"),))
        if is_abandoned(epoch, manifest.generation, self.goings_back):
            why = f"the job has gone back from it, and it is not yet deleted, or came late, by={manifest.generation}"
            return None, CheckedCheckpoint(epoch, (Damage("lineage", where, why),))
        return manifest, CheckedCheckpoint(epoch, self.damages(manifest))

    def damages(self, manifest: Manifest) -> tuple[Damage, ...]:
        """Return the damages of the files that a manifest names, in the order: state, outputs, Spark's log."""
        checks = dict(self._checks(manifest))
        new = {key: check for key, check in checks.items() if key not in self._known}
        with ThreadPoolExecutor(_THREADS) as threads:
            found = threads.map(lambda check: check(), new.values())
            self._known.update(zip(new, found, strict=True))
        return tuple(damage for key in checks if (damage := self._known[key]) is not None)

    def _checks(self, manifest: Manifest) -> Iterator[tuple[str, Check]]:
        """Yield (identity of the check, check) of each file; a file of several runs comes once."""
        for operator in manifest.operators:
            for run in operator.runs:
                yield f"state {run.path} {run.bytes} {run.checksum}", partial(self._check_run, run)
        for file in manifest.outputs:
            if file.sink in self.outputs:
                key = f"output {file.sink} {file.staged_path} {file.final_path} {file.bytes} {file.checksum}"
                yield key, partial(self._check_output, file)
        logs = () if manifest.is_final else manifest.source_logs  # after the last epoch, Spark does not start any more
        for path in source_entries_read(self.spark_listing, ends_of(logs)):
            yield f"spark {path}", partial(self._check_entry, path)
        for log in logs if self.reads else ():
            yield f"source log {log}", partial(self._check_source_log, log)
        yield f"range {manifest.epoch}", partial(self._check_range, manifest)

    def _check_run(self, run: RunFile) -> Damage | None:
        store = self.log.store
        problem = file_problem(store, run.path, size=run.bytes, checksum=run.checksum, reads=self.reads)
        return None if problem is None else Damage("state", f"{store.url}/{run.path}", f"a run of the state {problem}")

    def _check_output(self, file: StagedFile) -> Damage | None:
        output = self.outputs[file.sink]
        found = output.problem(file, reads=self.reads)
        return None if found is None else Damage("output", f"{output.store.url}/{found[0]}", f"an output {found[1]}")

    def _check_entry(self, path: str) -> Damage | None:
        problem = "is missing" if path not in self.spark_listing else None
        if problem is None and self.reads:
            problem = _entry_problem(self.log.store, path)
        return None if problem is None else self._spark_damage(path, f"a source's entry in Spark's log {problem}")

    def _check_source_log(self, log: SourceLog) -> Damage | None:
        """Check the content of a log, unless one of its entries is already reported as damaged."""
        if any(map(self._check_entry, source_entries_read(self.spark_listing, ends_of([log])))):
            return None
        found = source_log_problem(self.log.store, self.spark_listing, log)
        return None if found is None else self._spark_damage(*found)

    def _check_range(self, manifest: Manifest) -> Damage | None:
        """Report an undamaged entry of Spark that differs from the manifest. A damaged entry can be rebuilt."""
        path = paths.spark_offsets_path(manifest.epoch)
        data = self.log.store.get(path) if manifest.offsets and path in self.spark_listing else None
        if data is None or data == manifest.offsets.encode() or _entry_problem(self.log.store, path) is not None:
            return None
        return self._spark_damage(path, "Spark's log has another range of input for the epoch than was committed")

    def _spark_damage(self, path: str, why: str) -> Damage:
        return Damage("spark", f"{self.log.store.url}/{path}", why)


def source_log_problem(store: ObjectStore, listing: Sequence[str], log: SourceLog) -> tuple[str, str] | None:
    """Return (path, what is wrong) if the content of a source's log is not what was committed; None if it is.

    It reads all entries that Spark would read, but none of Hadoop's checksum files.
    """
    names: Sequence[str] = (paths.spark_source_path(log.source, 0),)
    if log.end is not None:
        names = source_entries_read(listing, {log.source: log.end})
    entries = [data for name in names if (data := store.get(name)) is not None]
    if len(entries) < len(names):
        return names[-1], "a source's entry in Spark's log, or one before it, is missing"
    try:
        found = beginning(log.source, entries[0]) if log.end is None else log_of(entries, log.source, log.end)
    except ValueError:
        return names[-1], "a source's entry in Spark's log, or one before it, cannot be read"
    if found == log:
        return None
    why = f"a source's log is not what was committed, files={found.files}, files_committed={log.files}"
    return names[-1], why


def file_problem(store: ObjectStore, path: str, *, size: int, checksum: str, reads: bool) -> str | None:
    """Return the problem of a file that was committed with this size and checksum; None if it is whole."""
    found = store.size(path)
    if found is None:
        return "is missing"
    if found != size:
        return f"has another size, bytes={found}, bytes_committed={size}"
    sum_found = store.checksum(path) if reads else checksum
    if sum_found is None:  # deleted since
        return "is missing"
    return None if sum_found == checksum else f"has changed, checksum={sum_found}, checksum_committed={checksum}"


def _entry_problem(store: ObjectStore, path: str) -> str | None:
    data = store.get(path)
    return "is missing" if data is None else entry_problem(data, store.get(paths.spark_checksum_path(path)))


def _first_clause(error: CorruptStateError) -> str:
    """Return the part of an error's text that says what happened, without the advice."""
    return str(error).partition(". ")[0]
