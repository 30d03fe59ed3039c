"""Spark's own log, by the names in a listing: the files needed to go on after an epoch, and the files of later epochs.

Offsets and commits are numbered by epoch, but each source numbers its own entries. The two counts diverge: a source may
have no new input in an epoch, and a crash may happen between a source's entry and Spark's offsets. So the text of
offsets/<epoch> says which entries of a source belong to the epoch, and the manifest holds this by source
(`source_logs`). An extra source entry is harmless: Spark reads its files as new in the next epoch. After a missing
entry, its files would be read twice. Hence if the end of a source's log is unknown (the source has no log of files, or
had no input yet), all of its entries count as needed and none as later.

    Example: offsets/7 refers to entry 4 of source 0. Then epoch 7 needs sources/0/4, and sources/0/5 is later.

Invariants (tests/checkpoint/test_spark_log.py):
  I1  no file is both needed up to an epoch and later than it
  I2  after deleting the first n files of files_after, for any n: epochs_done still shows that Spark is ahead of the
      epoch, or Spark's log is whole; and no offsets refer to a deleted source entry
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import is_hadoop_checksum_of
from mixedmode.checkpoint.paths import SparkLogFile
from mixedmode.checkpoint.types import Epoch

__all__ = [
    "entry_problem",
    "epochs_done",
    "files_after",
    "files_up_to",
    "has_new_input",
    "lines_by_source",
    "newest_begun",
    "offsets_of",
    "shares_of_sources",
    "source_entries_read",
    "source_lines",
    "source_log_ends",
]

T = TypeVar("T")

#: Spark reads its latest entry and the one before it
_ENTRIES_NEEDED = 2
#: the lines of an offset log entry before those of the sources: its version, and the settings of the epoch
_HEAD_LINES = 2
#: the first line of an entry
_VERSIONS = {"v1", "v2"}
_NOTHING: Mapping[int, int] = {}
#: the line of a source that has had no input yet
_NOTHING_YET = "-"


def files_up_to(listing: Iterable[str], epoch: Epoch, ends: Mapping[int, int] = _NOTHING) -> tuple[str, ...]:
    """Return the files that Spark needs to go on after `epoch`, in the order in which to write them.

    Checksum files are left out. listing: paths relative to the checkpoint folder. ends: {source: its newest entry that
    belongs to the epoch} (Manifest.source_logs).
    """
    paths_there = list(listing)
    entries = [(file, path) for file, path in _entries(paths_there) if not file.is_checksum]
    sources = [(file, path) for file, path in entries if _is_of_sources_up_to(file, ends)]
    needed = [path for path in paths_there if path == paths.SPARK_METADATA]
    needed += [path for _, path in sorted(sources, key=lambda entry: (entry[0].source, entry[0].number))]
    for log in ("offsets", "commits"):
        reached = [(file.number, path) for file, path in entries if file.log == log and file.number <= epoch]
        needed += [path for _, path in sorted(reached)[-_ENTRIES_NEEDED:]]
    return tuple(needed)


def files_after(listing: Iterable[str], epoch: Epoch, ends: Mapping[int, int] = _NOTHING) -> tuple[str, ...]:
    """Return the files of Spark's log that are later than `epoch`, including checksum files.

    The arguments are those of files_up_to. The files are in an order in which deleting is safe at a crash: first the
    offsets, newest to oldest, then the source entries that the offsets refer to, then the commits, oldest to newest. As
    long as the newest commit exists, `epochs_done` shows that Spark is ahead.
    """
    paths_there = list(listing)
    later = [(file, path) for file, path in _entries(paths_there) if _is_later(file, epoch, ends)]
    return tuple(path for _, path in sorted(later, key=lambda entry: _deletion_rank(entry[0])))


def epochs_done(listing: Iterable[str]) -> Epoch | None:
    """Return the newest epoch that is completed according to Spark's log, None if there is none.

    An epoch is completed if it has a commit entry, or if the next epoch has an offsets entry.
    """
    over = [
        file.number if file.log == "commits" else file.number - 1
        for file, _ in _entries(listing)
        if not file.is_checksum and file.source is None
    ]
    newest = max(over, default=-1)
    return None if newest < 0 else Epoch(newest)


def newest_begun(listing: Iterable[str]) -> Epoch | None:
    """Return the newest epoch whose input range Spark has written to its log, None if there is none."""
    begun = [file.number for file, _ in _entries(listing) if file.log == "offsets" and not file.is_checksum]
    return Epoch(max(begun)) if begun else None


def source_entries_read(listing: Iterable[str], ends: Mapping[int, int]) -> tuple[str, ...]:
    """Return the paths of the source entries that Spark reads when it starts from `ends`, including missing ones.

    For each source these are the newest compact entry up to its end, and all entries after that one up to the end.
    """
    paths_there = list(listing)
    entries = [(file, path) for file, path in _entries(paths_there) if not file.is_checksum]
    there = {(file.source, file.number): path for file, path in entries if file.source is not None}
    compact = [file for file, _ in entries if file.is_compact]
    needed = []
    for source, end in ends.items():
        first = max((file.number for file in compact if file.source == source and file.number <= end), default=0)
        needed += [
            there.get((source, number), paths.spark_source_path(source, number)) for number in range(first, end + 1)
        ]
    return tuple(needed)


def entry_problem(data: bytes, checksum: bytes | None, *, has_version: bool = True) -> str | None:
    """Return the problem of an entry of Spark's log, None if it is whole.  Spark itself does not verify the checksum.

    checksum: the content of Hadoop's checksum file beside the entry, if there is one. has_version: True for all
    entries, False for Spark's metadata.
    """
    if checksum is not None:
        return None if is_hadoop_checksum_of(checksum, data) else "does not match its checksum"
    try:
        version, *lines = (("" if has_version else "v1\n") + data.decode()).split("\n")
        for line in lines:
            if line != _NOTHING_YET:
                json.loads(line)
    except ValueError:
        return "cannot be read"
    if not version.startswith("v") or not lines:
        return "is cut short"
    return None if version in _VERSIONS else "has a version that Spark cannot read"


def source_log_ends(offsets: str, line_sources: Sequence[int]) -> Mapping[int, int]:
    r"""Return {number of a source: its newest entry} from an offset log entry, for sources with a log of files.

    line_sources: the number of the source of each line. A query that reads a source several times has one line per
    read, although the source has only one log. A job with several sources has such a query.

    >>> source_log_ends('v1\n{"batchWatermarkMs":0}\n{"logOffset":7}\n-\n12\n{"logOffset":7}', (0, 1, 2, 0))
    {0: 7}
    """
    ends = {}
    for source, line in zip(line_sources, offsets.split("\n")[_HEAD_LINES:], strict=False):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        end = said.get("logOffset") if isinstance(said, dict) else None
        if isinstance(end, int):
            ends[source] = end
    return ends


def lines_by_source(offsets: str, counts: Mapping[str, int], *, has_clock: bool) -> Mapping[str, tuple[str, ...]]:
    r"""Return {source: its lines in an offset log entry}; () for each source if the entry is "".

    counts: {source: the number of Spark sources that it consists of}, in the order in which the query reads them for
    the second time. This second time reads each source once, no matter how often the SQL reads it before. has_clock:
    the last line belongs to the clock.

    >>> lines_by_source('v1\n{}\n3\n3\n7\n3\n7\n99', {"a": 1, "b": 1}, has_clock=True)
    {'a': ('3',), 'b': ('7',)}
    """
    return shares_of_sources(offsets.split("\n")[_HEAD_LINES:], counts, has_clock=has_clock)


def shares_of_sources(lines: Sequence[T], counts: Mapping[str, int], *, has_clock: bool) -> Mapping[str, tuple[T, ...]]:
    """Return {source: its share} of something that Spark has for each line of an offset log entry. As above."""
    at = len(lines) - has_clock - sum(counts.values())
    found = {}
    for source, count in counts.items():
        found[source] = tuple(lines[max(at, 0) : max(at + count, 0)])
        at += count
    return found


def has_new_input(before: str, now: str, *, has_clock: bool) -> bool:
    r"""Return whether a source has something new in an epoch, be it a file without records. The clock alone has not.

    before, now: the offset log entries where the epoch begins and ends; before: "" for the first epoch. has_clock: the
    last line belongs to the clock.

    >>> has_new_input('v1\n{}\n3\n98', 'v1\n{"batchTimestampMs":7}\n3\n99', has_clock=True)
    False
    """
    return not has_clock or source_lines(before)[:-1] != source_lines(now)[:-1]


def offsets_of(offsets: str, line_sources: Sequence[int]) -> str:
    r"""Return an offset log entry for a query that reads the same sources, but some of them more or less often.

    offsets: an entry in which all readers of a source are equally far. line_sources: the number of the source of each
    line of the new query. Both queries read each source, and the clock, once more at the end, in the order of their
    numbers.

    >>> offsets_of('v1\n{}\n3\n3\n7\n3\n7', (0, 1, 0, 1))
    'v1\n{}\n3\n7\n3\n7'
    """
    lines = offsets.split("\n")
    last = lines[len(lines) - max(line_sources) - 1 :]
    return "\n".join([*lines[:_HEAD_LINES], *(last[number] for number in line_sources)])


def source_lines(offsets: str) -> list[str]:
    """Return one line per source, and the clock's line if there is one.

    A query reads all of its sources twice, in the same order, and then the clock if it uses one. The lines of the
    second reads repeat those of the first, and are left out.
    """
    lines = offsets.split("\n")[_HEAD_LINES:]
    half = len(lines) // 2
    is_twice = lines[:half] == lines[half : 2 * half]
    return lines[:half] + lines[2 * half :] if half and is_twice else lines


def _entries(listing: Iterable[str]) -> Iterator[tuple[SparkLogFile, str]]:
    for path in listing:
        file = paths.parse_spark_path(path)
        if file is not None:
            yield file, path


def _is_of_sources_up_to(file: SparkLogFile, ends: Mapping[int, int]) -> bool:
    return file.source is not None and file.number <= ends.get(file.source, file.number)


def _is_later(file: SparkLogFile, epoch: Epoch, ends: Mapping[int, int]) -> bool:
    if file.source is None:
        return file.number > epoch
    return not _is_of_sources_up_to(file, ends)


def _deletion_rank(file: SparkLogFile) -> tuple[int, int, int, bool]:
    if file.log == "commits":
        return 2, 0, file.number, not file.is_checksum
    return int(file.source is not None), file.source or 0, -file.number, file.is_checksum
