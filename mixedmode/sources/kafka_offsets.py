"""Kafka offsets as Spark writes them, and the ranges between them. Nothing here contacts a broker.

    {"orders":{"0":17,"1":0}}     by topic and partition, the first offset that has not been read

Spark's offset log has such a line for a Kafka source, and Spark's options accept it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "EARLIEST",
    "OffsetRanges",
    "Offsets",
    "lines_of",
    "parse_initial_offsets",
    "parse_offsets",
    "ranges_between",
    "records_between",
]

Offsets = Mapping[str, Mapping[int, int]]
EARLIEST = -2  # Spark's number for the earliest offset
#: the lines of an entry of Spark's offset log before those of the sources: its version, and the settings of the epoch
_HEAD_LINES = 2


@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """Half-open ranges [start, end) of some partitions; none is empty."""

    start: Offsets
    end: Offsets

    def as_options(self) -> dict[str, str]:
        """Return the options of Spark's batch reader that read exactly these ranges."""
        partitions = {topic: sorted(ends) for topic, ends in self.end.items()}
        return {
            "assign": json.dumps(partitions),
            "startingOffsets": json.dumps(self.start),
            "endingOffsets": json.dumps(self.end),
        }


def parse_offsets(line: str) -> Offsets | None:
    """Return the offsets in a line of Spark's log; None if it is not the line of a Kafka source.

    >>> parse_offsets('{"orders":{"0":17}}')
    {'orders': {0: 17}}
    >>> parse_offsets('{"logOffset":7}')
    """
    try:
        said = json.loads(line)
        return {topic: {int(partition): int(at) for partition, at in ends.items()} for topic, ends in said.items()}
    except (ValueError, AttributeError, TypeError):
        return None


def parse_initial_offsets(entry: bytes) -> Offsets | None:
    r"""Return the offsets in sources/<number>/0 of Spark's log, where a Kafka source stores the offsets it began with.

    >>> parse_initial_offsets(b'\0v1\n{"orders":{"0":0}}')
    {'orders': {0: 0}}
    """
    return parse_offsets(entry.decode(errors="replace").rpartition("\n")[2])


def lines_of(offsets: str) -> list[str]:
    """Return the lines of the sources in an entry of Spark's offset log, or [] for "".
    A source that is read twice has two lines.
    """
    return offsets.split("\n")[_HEAD_LINES:]


def ranges_between(before: Offsets, now: Offsets) -> OffsetRanges:
    """Return the ranges in `now` that are not in `before`. A new partition is read from its beginning, as in Spark."""
    start: dict[str, dict[int, int]] = {}
    end: dict[str, dict[int, int]] = {}
    for topic, ends in now.items():
        for partition, until in ends.items():
            first = before.get(topic, {}).get(partition, EARLIEST)
            if first < until and until > 0:
                start.setdefault(topic, {})[partition] = first
                end.setdefault(topic, {})[partition] = until
    return OffsetRanges(start, end)


def records_between(before: Offsets | None, now: Offsets | None) -> int:
    """Return how many offsets lie between two places; 0 unless both are known. A new partition counts from 0.

    >>> records_between({"orders": {0: 10}}, {"orders": {0: 17, 1: 2}})
    9
    """
    if before is None or now is None:
        return 0
    ends = [
        (before.get(topic, {}).get(partition, 0), end)
        for topic, parts in now.items()
        for partition, end in parts.items()
    ]
    return sum(max(0, end - start) for start, end in ends)
