"""Records that map tasks send as they are, and that the subtask of their key folds.

Folding a slice before the exchange saves rows if keys repeat in the slice. The more map tasks share the input, the less
they do: then the slice takes nearly as many rows after folding, which the subtask has to sort. So the map task divides
the records by subtask, and each subtask folds the records of all map tasks at once.

    Example: 10 M records over 1 M keys. Two map tasks make 2 M rows of them, so they fold. Sixteen would make 7.4 M
    rows, so they send the 10 M records. The subtasks make 1 M rows of them.

Each slice decides for itself, so a subtask may get rows and records of the same key.

Invariants (tests/tasks/test_records.py):
  I1  the sorter of a subtask gets the same keys and combined values, whether records or rows are sent
  I2  a record is sent to the subtask that owns the key group of its key
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from mixedmode.keys import KeySchema, distinct_max, encode_keys, key_groups
from mixedmode.operators.running import divided_by_subtask
from mixedmode.plan.stages import KeyedStage
from mixedmode.tasks.batches import batch_of, columns_read, keys_of
from mixedmode.tasks.memory import SLICE_ROW_BYTES_MIN
from mixedmode.tasks.timing import Timing

__all__ = ["DISTINCT_PART_MIN", "RecordsToFold", "divided", "folds_in_subtask", "may_hardly_repeat"]

DISTINCT_PART_MIN = 0.5  # distinct keys for each row of a slice; up to this, folding takes less time
_BLOCK_ROWS = 2**18  # rows divided at once: their columns stay in a CPU's cache, and the calls cost little


def folds_in_subtask(stage: KeyedStage) -> bool:
    """Return whether the subtasks of a stage can fold its records."""
    operator = stage.operator
    return operator.combine is not None and operator.traits.folds_in_subtask and bool(stage.key_fields)


def may_hardly_repeat(rows: pa.Table, stage: KeyedStage) -> bool:
    """Return False if the range of the keys alone shows that these input rows are not sent. It spares a sample."""
    least: float = rows.num_rows * DISTINCT_PART_MIN
    return distinct_max(keys_of(rows, stage)) > least


def divided(
    rows: pa.Table, stage: KeyedStage, *, parallelism: int, max_parallelism: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield (subtask, its rows) of input rows; one subtask may come several times. A key's rows keep their order."""
    schema, rows = KeySchema(stage.key_fields), columns_read(rows, stage)
    for start in range(0, rows.num_rows, _BLOCK_ROWS):
        block = rows.slice(start, _BLOCK_ROWS)
        groups = key_groups(encode_keys(keys_of(block, stage), schema), max_parallelism=max_parallelism)
        yield from divided_by_subtask(block, groups, parallelism=parallelism, max_parallelism=max_parallelism)


@dataclass(slots=True)
class RecordsToFold:
    """Collects records of a subtask, and folds them when they have `bytes_max`, or are asked for.

    Folding takes up to three times as much memory besides.
    """

    stage: KeyedStage
    timing: Timing
    max_parallelism: int
    bytes_max: int
    _held: list[pa.Table] = field(default_factory=list, init=False)
    _held_bytes: int = field(default=0, init=False)

    def add(self, records: pa.Table) -> None:
        """Add records of keys that the subtask owns."""
        self._held.append(records)
        self._held_bytes += max(records.nbytes, records.num_rows * SLICE_ROW_BYTES_MIN)

    @property
    def is_full(self) -> bool:
        """True if the records have to be folded before others are added."""
        return self._held_bytes >= self.bytes_max

    def folded(self) -> pa.Table | None:
        """Return folded rows of the records added since the last call; None without any.

        Raises InvalidJobError if a record has no event time, and the stage needs it.
        """
        if not self._held:
            return None
        records = pa.concat_tables(self._held).combine_chunks()
        self._held.clear()
        self._held_bytes = 0
        batch = batch_of(records, self.stage, self.timing)
        late_us = self.timing.late_us(self.stage.delay_us)
        found = self.stage.operator.fold(batch, late_us=late_us, max_parallelism=self.max_parallelism)
        assert not len(found.late_rows), "a stage whose records may be late folds them on the map side"
        return found.table
