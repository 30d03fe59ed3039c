"""Input that Spark has planned beyond a checkpoint: the files that the next epochs read, and damaged log entries.

Spark's log is ahead of a checkpoint after an epoch that was not committed, and after going back. If a file that the log
names there is gone, Spark silently skips the file. So a start first checks that all of these files exist.

A damaged entry may name files that never existed. So for epochs that were committed and then abandoned by going back,
files count only if the entries agree with the manifests of these epochs.

A planned epoch is not committed yet. So its damaged entries may be deleted: Spark then lists its folder again and finds
the same files.

Invariants (tests/checkpoint/test_planned_input.py):
  I1  every file of a readable entry beyond the checkpoint is returned, and no file of the checkpoint itself
  I2  no dropped entry refers to input up to the checkpoint
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.paths import SparkLogFile
from mixedmode.checkpoint.source_log import LoggedFile, ends_of, extended, files_named, newest_files
from mixedmode.checkpoint.spark_log import entry_problem, files_after, source_log_ends
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest, SourceLog

__all__ = ["PlannedInput", "drop_planned", "planned_input"]

_BEFORE_ALL = Epoch(-1)


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """The input that Spark has planned beyond a checkpoint.

    files: the files that readable entries name. damaged: the paths of unreadable entries. later: all files of Spark's
    log beyond the checkpoint, in an order in which deleting them is safe.
    """

    files: tuple[LoggedFile, ...]
    damaged: tuple[str, ...]
    later: tuple[str, ...]


def planned_input(
    log: CheckpointLog,
    listing: Sequence[str],
    checkpoint: Manifest | None,
    line_sources: Sequence[int],
    *,
    left: Sequence[Manifest] = (),
) -> PlannedInput:
    """Read the input that Spark has planned beyond `checkpoint` (None: since the beginning of the job).

    listing: the names below spark/. line_sources: the source number of each line of an offset entry. left: the readable
    manifests that the job goes back from, oldest to newest.
    """
    logs = () if checkpoint is None else checkpoint.source_logs
    epoch = _BEFORE_ALL if checkpoint is None else checkpoint.epoch
    planned = _planned_ends(log.store, listing, epoch, line_sources)
    ends = {**dict.fromkeys(planned, -1), **ends_of(logs)}
    beginnings = {known.source for known in logs if known.end is None}
    files: dict[int, list[LoggedFile]] = {}
    damaged = [
        paths.spark_offsets_path(of)
        for source, (of, end) in planned.items()
        if end > max((file.number for file, _ in _entries(listing) if file.source == source), default=-1)
    ]
    for file, path in _entries(listing):
        if file.source is None or file.source in beginnings or file.number <= ends.get(file.source, -1):
            continue
        found = _files_of(log.store, file, path, ends.keys(), logs)
        if found is None:
            damaged.append(path)
        else:
            files.setdefault(file.source, []).extend(found)
    trusted = (file for source, named in files.items() for file in _trusted(source, named, logs, left))
    return PlannedInput(tuple(trusted), tuple(dict.fromkeys(damaged)), files_after(listing, epoch, ends))


def drop_planned(log: CheckpointLog, planned: PlannedInput) -> tuple[str, ...]:
    """Delete Spark's planned entries if any of them is damaged; Spark then plans again. Return the damaged paths."""
    if planned.damaged:
        log.store.delete(planned.later)
        log.store.delete([name for path in planned.damaged for name in (path, paths.spark_checksum_path(path))])
    return planned.damaged


def _trusted(
    source: int, files: Sequence[LoggedFile], logs: Sequence[SourceLog], left: Sequence[Manifest]
) -> Iterator[LoggedFile]:
    """Yield the files of a source whose entries agree with the manifests `left`, and the files after all of these."""
    before = next((log for log in logs if log.source == source), None)
    for log in (log for manifest in left for log in manifest.source_logs if log.source == source):
        start, end = _end(before), _end(log)
        own = [file for file in files if start < file.number <= end]
        if end > start and extended(before, source, end, own) == log:
            yield from own
        before = log
    yield from (file for file in files if file.number > _end(before))


def _end(log: SourceLog | None) -> int:
    return -1 if log is None or log.end is None else log.end


def _planned_ends(
    store: ObjectStore, listing: Sequence[str], epoch: Epoch, line_sources: Sequence[int]
) -> Mapping[int, tuple[Epoch, int]]:
    """Return {source: (the newest planned epoch that mentions the source, the source's newest entry there)}."""
    planned: dict[int, tuple[Epoch, int]] = {}
    parsed = (paths.parse_spark_path(path) for path in listing)
    numbers = {file.number for file in parsed if file and file.log == "offsets" and not file.is_checksum}
    for number in sorted(number for number in numbers if number > epoch):
        path = paths.spark_offsets_path(Epoch(number))
        data = store.get(path)
        if data is not None and entry_problem(data, store.get(paths.spark_checksum_path(path))) is None:
            ends = source_log_ends(data.decode(), line_sources)
            planned |= {source: (Epoch(number), end) for source, end in ends.items()}
    return planned


def _files_of(
    store: ObjectStore, file: SparkLogFile, path: str, sources: Collection[int], logs: Sequence[SourceLog]
) -> Sequence[LoggedFile] | None:
    """Return the new files of an entry; None if the entry is damaged, () if its source has no log of files."""
    data = store.get(path)
    if data is None or entry_problem(data, store.get(paths.spark_checksum_path(path))) is not None:
        return None
    try:
        files = newest_files(data, file.number, is_compact=file.is_compact)
        known = next((one for one in logs if one.source == file.source), None)
        if file.is_compact and known is not None and known.end is not None:
            committed = [one for one in files_named(data) if one.number <= known.end]
            return files if extended(None, known.source, known.end, committed) == known else None
    except ValueError:
        return None if file.source in sources else ()
    return files


def _entries(listing: Sequence[str]) -> Iterator[tuple[SparkLogFile, str]]:
    """Yield the log entries of sources, without checksum files."""
    for path in listing:
        file = paths.parse_spark_path(path)
        if file is not None and file.source is not None and not file.is_checksum:
            yield file, path
