"""The progress of an epoch's sources: counted by map tasks, sent to every subtask, merged by the driver."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from mixedmode.time import Seen, Split, merge_seen


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of records, and the newest event time of each split (source and partition).

    `late` counts records that came too late for every window, and late rows of joins; `late_of_sides` counts the latter
    by (step, number of the side). `ahead` counts records so far ahead of the clock that they do not move the watermark.
    """

    records: int = 0
    late: int = 0
    ahead: int = 0
    splits: Mapping[Split, Seen] = field(default_factory=dict)
    late_of_sides: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def merged(self, other: "Progress") -> "Progress":
        """Return the sum of both; the order does not matter."""
        splits = dict(self.splits)
        for split, seen in other.splits.items():
            splits[split] = merge_seen(splits[split], seen) if split in splits else seen
        counts = (self.records + other.records, self.late + other.late, self.ahead + other.ahead)
        late = dict(self.late_of_sides)
        for side, count in other.late_of_sides.items():
            late[side] = late.get(side, 0) + count
        return Progress(*counts, splits, late)

    def encode(self) -> bytes:
        """Encode as JSON."""
        splits = [[*split, seen.records, seen.max_time_us] for split, seen in self.splits.items()]
        late = [[*side, count] for side, count in self.late_of_sides.items()]
        return json.dumps([self.records, self.late, self.ahead, splits, late]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the JSON of `encode`."""
        records, late, ahead, splits, of_sides = json.loads(data)
        return cls(
            records,
            late,
            ahead,
            {(source, part): Seen(count, newest) for source, part, count, newest in splits},
            {(step, side): count for step, side, count in of_sides},
        )

    def records_of(self, source: str) -> int:
        """Return the number of records of one source, over all its partitions."""
        return sum(seen.records for (name, _), seen in self.splits.items() if name == source)
