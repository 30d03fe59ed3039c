"""Random changelogs, and what a keyed step over them must say, recomputed from the rows that are there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mixedmode.operators.aggregate.changes import KeyedChanges
from tests.operators.oracle import Record, aggregate, close, identical, tolerance

Row = tuple[Any, ...]  # the key, and then the arguments


@dataclass(frozen=True, slots=True)
class LogEpoch:
    """The changes of one epoch, in any order, and all rows that are there after it."""

    rows: list[Row]
    weights: list[int]
    present: list[Row]


@st.composite
def changelogs(draw: st.DrawFn, row: st.SearchStrategy[Row], max_epochs: int = 4) -> list[LogEpoch]:
    """Epochs in which rows are added and rows that are there are retracted, often in the epoch that added them."""
    present, epochs = list[Row](), list[LogEpoch]()
    for actions in draw(st.lists(st.lists(st.none() | row, max_size=8), max_size=max_epochs)):
        changes = list[tuple[Row, int]]()
        for action in actions:
            if action is not None:
                present.append(action)
                changes.append((action, 1))
            elif present:
                changes.append((present.pop(draw(st.integers(0, len(present) - 1))), -1))
        changes = draw(st.permutations(changes))
        epochs.append(LogEpoch([c[0] for c in changes], [c[1] for c in changes], list(present)))
    return epochs


@dataclass(slots=True)
class Follower:
    """Follows a step's changes epoch by epoch, and checks each against the oracle.

    `calls` are (function, type) in the order of arguments; None for count(*).
    """

    calls: Sequence[tuple[str, pa.DataType | None]]
    #: {key: the row that was last given}; to the last bit what must be retracted
    table: dict[Any, Row] = field(default_factory=dict)

    def follow(self, epoch: LogEpoch, changes: Sequence[KeyedChanges]) -> None:
        """Check one epoch."""
        touched = {row[0] for row in epoch.rows}
        before = dict(self.table)
        for change in changes:
            self._upsert(change)
        assert self.table.keys() == {row[0] for row in epoch.present}, "a key is there as long as it has rows"
        for key in touched & self.table.keys():
            self._check(self.table[key], [row for row in epoch.present if row[0] == key])
        for key in before.keys() - touched:
            assert self.table[key] is before[key], "a key without changes is not given"

    def _upsert(self, change: KeyedChanges) -> None:
        if change.previous is not None:
            log = change.changelog().to_pylist()
            self._check_retracted({row["k"]: tuple(row.values())[:-1] for row in log if row["_weight"] < 0}, change)
        for row in change.upserts().to_pylist():
            key, results, operation = row["k"], tuple(row.values())[:-1], row["_op"]
            if operation == "delete":
                assert all(value is None for value in results[1:])
                del self.table[key]
            else:
                assert operation == ("update" if key in self.table else "insert")
                self.table[key] = results

    def _check_retracted(self, retracted: dict[Any, Row], change: KeyedChanges) -> None:
        keys = set(change.keys[0].to_pylist())
        assert retracted.keys() == keys & self.table.keys(), "what was given is retracted, and nothing else"
        for key, row in retracted.items():
            assert all(map(identical, row, self.table[key])), ("to the last bit", row, self.table[key])

    def _check(self, found: Row, rows: list[Row]) -> None:
        for i, (function, data_type) in enumerate(self.calls):
            records = [Record(row[1 + i]) for row in rows]
            if data_type is None:
                assert found[1 + i] == len(rows)
                continue
            expected = aggregate(function, records, data_type)
            if isinstance(expected, float) and function not in ("min", "max"):
                assert close(found[1 + i], expected, within=tolerance(function, records)), (function, found, rows)
            else:
                assert identical(found[1 + i], expected), (function, found, rows)
