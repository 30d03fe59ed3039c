"""The progress of an epoch's sources: counted by map tasks, sent to every subtask, merged by the driver."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from mixedmode.time import Seen, Split, merge_seen

_Name = TypeVar("_Name", str, tuple[str, int])


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of records, and the newest event time of each split (source and partition).

    `late` counts records that came too late for every window, and late rows of joins; `late_of_sides` counts the latter
    by (step, number of the side). `ahead` counts records so far ahead of the clock that they do not move the watermark.
    `rows_read`: {operator id of a keyed stage: rows that it read}. `left_out`: {operator id of a join: rows that find
    no partner, and were left out before the exchange}.
    """

    records: int = 0
    late: int = 0
    ahead: int = 0
    splits: Mapping[Split, Seen] = field(default_factory=dict)
    late_of_sides: Mapping[tuple[str, int], int] = field(default_factory=dict)
    rows_read: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def merged(self, other: "Progress") -> "Progress":
        """Return the sum of both; the order does not matter."""
        splits = dict(self.splits)
        for split, seen in other.splits.items():
            splits[split] = merge_seen(splits[split], seen) if split in splits else seen
        counts = (self.records + other.records, self.late + other.late, self.ahead + other.ahead)
        late, read = _sums(self.late_of_sides, other.late_of_sides), _sums(self.rows_read, other.rows_read)
        return Progress(*counts, splits, late, read, _sums(self.left_out, other.left_out))

    def encode(self) -> bytes:
        """Encode as JSON."""
        splits = [[*split, seen.records, seen.max_time_us] for split, seen in self.splits.items()]
        late = [[*side, count] for side, count in self.late_of_sides.items()]
        of_steps = [dict(self.rows_read), dict(self.left_out)]
        return json.dumps([self.records, self.late, self.ahead, splits, late, *of_steps]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the JSON of `encode`."""
        records, late, ahead, splits, of_sides, rows_read, left_out = json.loads(data)
        return cls(
            records,
            late,
            ahead,
            {(source, part): Seen(count, newest) for source, part, count, newest in splits},
            {(step, side): count for step, side, count in of_sides},
            rows_read,
            left_out,
        )

    def records_of(self, source: str) -> int:
        """Return the number of records of one source, over all its partitions."""
        return sum(seen.records for (name, _), seen in self.splits.items() if name == source)


def _sums(one: Mapping[_Name, int], other: Mapping[_Name, int]) -> dict[_Name, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
