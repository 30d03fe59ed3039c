"""Savepoints: a copy of one checkpoint in a separate folder, which may be moved, copied and kept for ever.

A checkpoint is a set of immutable files and a list of them. A savepoint is the same files under the same
names, and savepoint.json, which is written last and lists each file with its checksum. So a savepoint can be taken
while the job runs, without its help. If the job drops the checkpoint during the copy, the next checkpoint is copied.

    savepoint.json            this list, the job's identity       create-once; if it exists, the savepoint is whole
    manifests/<epoch>.json    the manifest, byte by byte          immutable
    runs/...                  the state that the manifest names   immutable
    spark/...                 the part of Spark's log that is needed to go on after the epoch     immutable

All names are relative to the folder. Outputs are not copied: they are already published.
If the checkpoints and the savepoint are on one filesystem, the files are hard links, which take no space and no time.

Invariants (tests/checkpoint/test_savepoint.py):
  I1  a savepoint that exists was whole when it was created; later damage of any of its files is found and named
  I2  creating can be repeated after a crash at any point, and never replaces a savepoint
  I3  disposing deletes only the files that savepoint.json names, and savepoint.json itself
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.manifest import decode_as, decode_manifest, encode_as
from mixedmode.checkpoint.private_folder import is_private, keep_private
from mixedmode.checkpoint.source_log import ends_of
from mixedmode.checkpoint.spark_log import entry_problem, files_up_to, source_entries_read
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, JobIdentity, Manifest, RunFile
from mixedmode.checkpoint.verify import source_log_problem
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError

__all__ = [
    "REQUESTS_AT_ONCE",
    "Savepoint",
    "SavepointFile",
    "check_free",
    "create_savepoint",
    "damaged_files",
    "dispose_savepoint",
    "find_savepoints",
    "read_savepoint",
    "savepoint_manifest",
    "verify_savepoint",
]

_SAVEPOINT = DocumentKind("mixedmode-savepoint", 1, "the description of a savepoint")
_ATTEMPTS = 5  # a new attempt, with the newest checkpoint, if the job drops the checkpoint that is being copied
_NAMES_SHOWN = 5
REQUESTS_AT_ONCE = 8  # an object store answers many parallel requests as fast as one


@dataclass(frozen=True, slots=True)
class SavepointFile:
    """One file of a savepoint; `path` is relative to it."""

    path: str
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The content of savepoint.json.

    `taken_ms` is the time at which the job committed the epoch, `created_ms` the time of the copy. `entries` counts the
    values and tombstones of the state.
    """

    job: JobIdentity
    epoch: Epoch
    taken_ms: int
    created_ms: int
    entries: int
    files: tuple[SavepointFile, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes of all files except savepoint.json itself."""
        return sum(file.bytes for file in self.files)


def create_savepoint(
    log: CheckpointLog, target: ObjectStore, *, now_ms: int, check: Callable[[Manifest], object] = lambda _: None
) -> Savepoint:
    """Create a savepoint of the newest checkpoint of `log` in `target`. The job may be running.

    check: is given the manifest before the savepoint counts, and raises if it must not.
    Raises InvalidJobError if there is no checkpoint, or if `target` holds anything other than the files of an
    interrupted attempt. Raises CorruptStateError if the checkpoint is damaged.
    """
    identity = log.read_identity()
    if identity is None:
        msg = (
            "a savepoint is taken of a checkpoint, and this is no checkpoint folder: there is no job.json in it. If "
            "the job was never started, start it first. If its checkpoints are elsewhere, name the folder that has "
            f"them, or a job file with it as execution.checkpointing.dir. folder={log.store.url}"
        )
        raise InvalidJobError(msg)
    check_free(target)
    source, root = log.store.local_root, target.local_root
    if root is not None and (source is None or is_private(source)):  # the savepoint is as private as the checkpoints
        keep_private(root)
    manifest, files = _newest_copied(log, target)
    check(manifest)
    runs = {run.path: run for run in _runs(manifest)}.values()
    savepoint = Savepoint(
        job=identity,
        epoch=manifest.epoch,
        taken_ms=manifest.created_ms,
        created_ms=now_ms,
        entries=sum(run.entries for run in runs),
        files=files,
    )
    reach("savepoint", manifest.epoch)
    if not target.put_new(paths.SAVEPOINT, encode_as(_SAVEPOINT, savepoint)):
        raise _taken(target)
    named = {file.path for file in files}
    target.delete([path for path, _ in target.list() if _is_name_of_ours(path) and path not in named])
    return savepoint


def read_savepoint(store: ObjectStore) -> Savepoint:
    """Read savepoint.json.  Raises InvalidJobError if it does not exist, CorruptStateError if it is damaged."""
    data = store.get(paths.SAVEPOINT)
    if data is None and store.exists(paths.JOB):
        msg = (
            "this is a checkpoint folder, and no savepoint. `mixedmode savepoint create` makes a savepoint of its "
            f"newest checkpoint, and `mixedmode checkpoints` lists all. folder={store.url}"
        )
        raise InvalidJobError(msg)
    if data is None:
        msg = (
            f"this is no savepoint: there is no {paths.SAVEPOINT} in it, which is written last. Name the folder of a "
            "savepoint (`mixedmode savepoint list` finds them); if this one was cut short, create it again. "
            f"folder={store.url}"
        )
        raise InvalidJobError(msg)
    return decode_as(_SAVEPOINT, Savepoint, data, where=f"{store.url}/{paths.SAVEPOINT}")


def savepoint_manifest(store: ObjectStore, savepoint: Savepoint) -> Manifest:
    """Return the manifest in a savepoint.  Raises CorruptStateError if it has changed since the savepoint was taken."""
    path = paths.manifest_path(savepoint.epoch)
    (file,) = (file for file in savepoint.files if file.path == path)
    data = store.get(path)
    if data is None or checksum_of([data]) != file.checksum:
        verify_savepoint(store, savepoint)  # raises an error that names all damaged files
    assert data is not None, path
    return decode_manifest(data, where=f"{store.url}/{path}")


def damaged_files(store: ObjectStore, savepoint: Savepoint) -> Iterator[tuple[str, str]]:
    """Yield (path, description of the damage) of each file that has changed or is missing; reads all files."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        problems = pool.map(lambda file: _problem(store, file), savepoint.files)
        for file, problem in zip(savepoint.files, problems, strict=True):
            if problem is not None:
                yield file.path, problem


def verify_savepoint(store: ObjectStore, savepoint: Savepoint) -> None:
    """Raise CorruptStateError, which names the damaged files, unless every file is unchanged."""
    damaged = [f"{path}: {why}" for path, why in damaged_files(store, savepoint)]
    if damaged:
        more = f"; and {len(damaged) - _NAMES_SHOWN} more" if len(damaged) > _NAMES_SHOWN else ""
        msg = (
            f"the savepoint is damaged: {'; '.join(damaged[:_NAMES_SHOWN])}{more}. Nothing was changed. Take another "
            "copy of it, or another savepoint. "
            f"folder={store.url}, damaged={len(damaged)}, files={len(savepoint.files)}"
        )
        raise CorruptStateError(msg)


def find_savepoints(store: ObjectStore) -> Iterator[tuple[str, Savepoint | CorruptStateError]]:
    """Yield (folder or URL, its description) of each savepoint below a folder.

    The description is a CorruptStateError if savepoint.json is damaged.
    """
    for path, _ in store.list():
        folder = paths.parse_savepoint_path(path)
        if folder is not None:
            found = ObjectStore(f"{store.url}/{folder}" if folder else store.url)
            try:
                yield found.url, read_savepoint(found)
            except CorruptStateError as error:
                yield found.url, error


def dispose_savepoint(store: ObjectStore) -> Savepoint:
    """Delete a savepoint: first savepoint.json, so that a partial savepoint never looks whole, then the files it names.

    Return the savepoint that was deleted.

    Raises InvalidJobError if there is no savepoint, CorruptStateError if savepoint.json is damaged.
    """
    savepoint = read_savepoint(store)
    store.delete([paths.SAVEPOINT])
    store.delete([file.path for file in savepoint.files])
    return savepoint


def _problem(store: ObjectStore, file: SavepointFile) -> str | None:
    size = store.size(file.path)
    if size is None:
        return "it is missing"
    if size != file.bytes:
        return f"it has {size} bytes instead of {file.bytes}"
    return None if store.checksum(file.path) == file.checksum else "its bytes are not those that were written"


def _newest_copied(log: CheckpointLog, target: ObjectStore) -> tuple[Manifest, tuple[SavepointFile, ...]]:
    """Copy the newest checkpoint to `target`; return its manifest and the copied files."""
    for _ in range(_ATTEMPTS):
        epochs, goings_back = log.epochs(), log.goings_back()
        if not epochs:
            msg = (
                "there is no checkpoint yet that a savepoint could be taken of: a backlog takes none before it ends. "
                f"Take it once the job is live. folder={log.store.url}"
            )
            raise InvalidJobError(msg)
        newest = (log.get(epoch) for epoch in reversed(epochs))
        manifest = next((m for m in newest if m is None or not is_abandoned(m.epoch, m.generation, goings_back)), None)
        if manifest is None:  # the job dropped it after the listing
            continue
        if manifest.is_final:
            msg = (
                "the input of this job has ended, so nothing could go on from a savepoint. `mixedmode table` shows the "
                f"result. folder={log.store.url}, epoch={manifest.epoch}"
            )
            raise InvalidJobError(msg)
        try:
            return manifest, tuple(_copied(log, manifest, target))
        except (CorruptStateError, RetryableError):
            if log.get(manifest.epoch) is not None:  # else the job dropped it during the copy
                raise
    msg = (
        "the job drops its checkpoints faster than they can be copied. Set a larger "
        "execution.checkpointing.num-retained, start the job again, and then take the savepoint. "
        f"folder={log.store.url}, attempts={_ATTEMPTS}"
    )
    raise RetryableError(msg)


def _copied(log: CheckpointLog, manifest: Manifest, target: ObjectStore) -> Iterator[SavepointFile]:
    """Copy a checkpoint, file by file; yield each copy.  Raises CorruptStateError for a damaged or missing file."""
    listing = [path for path, _ in log.store.list(paths.SPARK)]
    ends = ends_of(manifest.source_logs)
    missing = sorted(set(source_entries_read(listing, ends)) - set(listing))
    if missing:
        raise _damaged(log, missing[0], "it is missing")
    manifest_path, offsets_path = paths.manifest_path(manifest.epoch), paths.spark_offsets_path(manifest.epoch)
    yield _written(target, offsets_path, manifest.offsets.encode())
    for path in files_up_to(listing, manifest.epoch, ends):
        if path != offsets_path:
            yield _written(target, path, _whole_log_entry(log, path))
    for source_log in manifest.source_logs:
        problem = source_log_problem(target, listing, source_log)
        if problem is not None:
            raise _damaged(log, *problem)
    runs = {run.path: run for run in _runs(manifest)}.values()
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        yield from pool.map(lambda run: _copied_run(log, run, target), runs)
    data = log.store.get(manifest_path)
    if data is None:
        raise _damaged(log, manifest_path, "it is missing")
    yield _written(target, manifest_path, data)


def _whole_log_entry(log: CheckpointLog, path: str) -> bytes:
    """Return the content of a file of Spark's log, checked. Spark keeps checksums of its log only on a local disk."""
    data, checksum = log.store.get(path), log.store.get(paths.spark_checksum_path(path))
    if data is None:
        raise _damaged(log, path, "it is missing")
    is_entry = paths.parse_spark_path(path) is not None
    problem = entry_problem(data, checksum) if is_entry or checksum is not None else None
    if problem is not None:
        raise _damaged(log, path, f"it {problem}")
    return data


def _copied_run(log: CheckpointLog, run: RunFile, target: ObjectStore) -> SavepointFile:
    checksum = log.store.copy_to(run.path, target)
    size = target.size(run.path)
    if checksum is None or size is None:
        raise _damaged(log, run.path, "it is missing")
    if (size, checksum) != (run.bytes, run.checksum):
        raise _damaged(log, run.path, f"it has {size} bytes of checksum {checksum}, not those that were committed")
    return SavepointFile(run.path, size, checksum)


def _written(target: ObjectStore, path: str, data: bytes) -> SavepointFile:
    target.put(path, data)
    return SavepointFile(path, len(data), checksum_of([data]))


def _runs(manifest: Manifest) -> Iterator[RunFile]:
    for operator in manifest.operators:
        yield from operator.runs


def check_free(target: ObjectStore) -> None:
    """Raise InvalidJobError if a folder holds anything other than the files of an interrupted savepoint."""
    listing = [path for path, _ in target.list()]
    if paths.SAVEPOINT in listing:
        raise _taken(target)
    strangers = [path for path in listing if not _is_name_of_ours(path)]
    if strangers:
        msg = (
            "a savepoint has a folder of its own, and there is something else in this one. Name a new folder. "
            f"folder={target.url}, found={strangers[0]}, objects={len(strangers)}"
        )
        raise InvalidJobError(msg)


def _is_name_of_ours(path: str) -> bool:
    """Return whether a savepoint may have a file of this name, beside savepoint.json."""
    parsed = (paths.parse_run_path(path), paths.parse_manifest_path(path), paths.parse_spark_path(path))
    return path == paths.SPARK_METADATA or any(found is not None for found in parsed)


def _taken(target: ObjectStore) -> InvalidJobError:
    return InvalidJobError(
        "there is a savepoint in this folder already, and it is not replaced. Name a new folder, or dispose of the "
        f"savepoint first. folder={target.url}"
    )


def _damaged(log: CheckpointLog, path: str, why: str) -> CorruptStateError:
    return CorruptStateError(
        f"a file of the newest checkpoint cannot be copied: {why}. No savepoint was made. Start the job: it goes back "
        f"to the newest whole checkpoint; then take the savepoint again. file={log.store.url}/{path}"
    )
