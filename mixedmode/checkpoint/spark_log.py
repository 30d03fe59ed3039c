"""Spark's own log as names in a listing: what it needs to go on after an epoch, and what belongs to later ones.

The one idea: offsets and commits are numbered by epoch, but each source numbers its own entries, and the two counts
drift apart (a source without news in an epoch, a crash between a source's entry and Spark's). So how far a source's log
belongs to an epoch stands in the text of offsets/<epoch>, which the manifest holds. A source entry beyond it does no
harm: Spark takes what it names as new in the next epoch. One too few would be read a second time. Hence where the text
does not say how far a source's log goes (a source of another kind, one that is read twice, no text), all of it counts
as needed, none as later.

Invariants (tests/checkpoint/test_spark_log.py):
  I1  no file is both needed up to an epoch and later than it
  I2  after deleting any first part of files_after, epochs_done still tells that Spark is ahead of the epoch, or Spark
      is whole; and no offsets name a source entry that is gone
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import is_hadoop_checksum_of
from mixedmode.checkpoint.paths import SparkLogFile
from mixedmode.checkpoint.types import Epoch

__all__ = [
    "entry_problem",
    "epochs_done",
    "files_after",
    "files_in_entries",
    "files_up_to",
    "lines_by_source",
    "newest_begun",
    "only_source_log_end",
    "source_entries_read",
    "source_lines",
    "source_log_ends",
]

#: Spark reads its latest entry and the one before it
_ENTRIES_NEEDED = 2
#: the lines of an offset log entry before those of the sources: its version, and the settings of the epoch
_HEAD_LINES = 2
#: what stands in the line of a source that has had nothing
_NOTHING_YET = "-"


def files_up_to(listing: Iterable[str], epoch: Epoch, offsets: str = "") -> tuple[str, ...]:
    """What Spark needs to go on after `epoch`, without checksum files; in the order in which to write them.

    listing: paths relative to the checkpoint folder. offsets: the text of offsets/<epoch> (Manifest.offsets).
    """
    paths_there = list(listing)
    ends = _ends_told(paths_there, offsets)
    entries = [(file, path) for file, path in _entries(paths_there) if not file.is_checksum]
    sources = [(file, path) for file, path in entries if _is_of_sources_up_to(file, ends)]
    needed = [path for path in paths_there if path == paths.SPARK_METADATA]
    needed += [path for _, path in sorted(sources, key=lambda entry: (entry[0].source, entry[0].number))]
    for log in ("offsets", "commits"):
        reached = [(file.number, path) for file, path in entries if file.log == log and file.number <= epoch]
        needed += [path for _, path in sorted(reached)[-_ENTRIES_NEEDED:]]
    return tuple(needed)


def files_after(listing: Iterable[str], epoch: Epoch, offsets: str = "") -> tuple[str, ...]:
    """Everything of Spark's log that is later than `epoch`, checksum files included, as files_up_to.

    In the order in which deleting is safe at a crash: the offsets, from the newest to the oldest, then what they refer
    to, then the commits, of which the newest is the last to go: by it `epochs_done` tells that Spark is ahead.
    """
    paths_there = list(listing)
    ends = _ends_told(paths_there, offsets)
    later = [(file, path) for file, path in _entries(paths_there) if _is_later(file, epoch, ends)]
    return tuple(path for _, path in sorted(later, key=lambda entry: _deletion_rank(entry[0])))


def epochs_done(listing: Iterable[str]) -> Epoch | None:
    """The newest epoch that Spark's log knows to be over, None if there is none.

    It is over once Spark has noted that, and at the latest when Spark has begun the next one.
    """
    over = [
        file.number if file.log == "commits" else file.number - 1
        for file, _ in _entries(listing)
        if not file.is_checksum and file.source is None
    ]
    newest = max(over, default=-1)
    return None if newest < 0 else Epoch(newest)


def newest_begun(listing: Iterable[str]) -> Epoch | None:
    """The newest epoch whose range Spark has fixed, None if there is none."""
    begun = [file.number for file, _ in _entries(listing) if file.log == "offsets" and not file.is_checksum]
    return Epoch(max(begun)) if begun else None


def source_entries_read(listing: Iterable[str], offsets: str) -> tuple[str, ...]:
    """The source entries that Spark reads when it starts from `offsets`, by name, whether they are there or not.

    These are the newest compact entry that `offsets` includes, and all after it.
    """
    paths_there = list(listing)
    entries = [(file, path) for file, path in _entries(paths_there) if not file.is_checksum]
    there = {(file.source, file.number): path for file, path in entries if file.source is not None}
    compact = [file for file, _ in entries if file.is_compact]
    needed = []
    for source, end in _ends_told(paths_there, offsets).items():
        first = max((file.number for file in compact if file.source == source and file.number <= end), default=0)
        needed += [
            there.get((source, number), paths.spark_source_path(source, number)) for number in range(first, end + 1)
        ]
    return tuple(needed)


def files_in_entries(entries: Iterable[bytes], numbers: range) -> tuple[str, ...]:
    """URIs of the files that entries of a file source name as new in the micro-batches `numbers` of its own count.

    Compact entries also name files of entries before them, which are passed over unless they are in `numbers`.
    """
    named = [json.loads(line) for entry in entries for line in entry.decode().splitlines()[1:] if line]
    return tuple(file["path"] for file in named if file["batchId"] in numbers)


def entry_problem(data: bytes, checksum: bytes | None, *, has_version: bool = True) -> str | None:
    """What is wrong with an entry of Spark's log, None if nothing is.  Spark itself does not look at the checksum.

    checksum: Hadoop's file beside it, if any. has_version: as all entries have; Spark's metadata have none.
    """
    if checksum is not None:
        return None if is_hadoop_checksum_of(checksum, data) else "does not match its checksum"
    try:
        version, *lines = (("" if has_version else "v\n") + data.decode()).split("\n")
        for line in lines:
            if line != _NOTHING_YET:
                json.loads(line)
    except ValueError:
        return "cannot be read"
    return None if version.startswith("v") and lines else "is cut short"


def source_log_ends(offsets: str) -> Mapping[int, int]:
    r"""{number of a source: its newest entry} as an offset log entry has it; only of sources with such a log (files).

    >>> source_log_ends('v1\n{"batchWatermarkMs":0}\n{"logOffset":7}\n-\n12')
    {0: 7}
    >>> source_log_ends('v1\n{"batchWatermarkMs":0}\n{"logOffset":7}\n{"logOffset":7}\n12')
    {0: 7}
    """
    ends = {}
    for source, line in enumerate(source_lines(offsets)):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        end = said.get("logOffset") if isinstance(said, dict) else None
        if isinstance(end, int):
            ends[source] = end
    return ends


def only_source_log_end(offsets: str) -> int | None:
    """The newest entry of a query's source that has a log, if it is the only one; else None."""
    ends = source_log_ends(offsets)
    return ends.get(0) if len(source_lines(offsets)) == 1 else None


def lines_by_source(offsets: str, counts: Mapping[str, int], *, has_clock: bool) -> Mapping[str, tuple[str, ...]]:
    r"""{source: its lines in an offset log entry}; () for each where there is no entry ("").

    counts: {source: how many of Spark's sources it is}, in the order in which the query reads them for the second time.
    That is once each, whatever its SQL reads before. has_clock: the last line is the clock's.

    >>> lines_by_source('v1\n{}\n3\n3\n7\n3\n7\n99', {"a": 1, "b": 1}, has_clock=True)
    {'a': ('3',), 'b': ('7',)}
    """
    lines = offsets.split("\n")[_HEAD_LINES:]
    at = len(lines) - has_clock - sum(counts.values())
    found = {}
    for source, count in counts.items():
        found[source] = tuple(lines[max(at, 0) : max(at + count, 0)])
        at += count
    return found


def source_lines(offsets: str) -> list[str]:
    """The line of each source. A query reads all of its sources twice, in the same order, and then the clock if it
    uses that; so the second lines say nothing new.
    """
    lines = offsets.split("\n")[_HEAD_LINES:]
    half = len(lines) // 2
    is_twice = lines[:half] == lines[half : 2 * half]
    return lines[:half] + lines[2 * half :] if half and is_twice else lines


def _ends_told(listing: Iterable[str], offsets: str) -> Mapping[int, int]:
    """source_log_ends, if the lines of `offsets` are the sources of the listing, one by one; else nothing is told.

    A query whose SQL reads a source more than once has a line for each time, but the source has one log. Then there are
    more lines than logs, and the last line with anything is of no log that is there.
    """
    lines = source_lines(offsets)
    there = {file.source for file, _ in _entries(listing)}
    has_all = all(line in {"", _NOTHING_YET} or source in there for source, line in enumerate(lines))
    return source_log_ends(offsets) if has_all or len(lines) == 1 else {}


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
