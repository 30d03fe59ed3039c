"""The vectorised twin: all records of a key at once, as Arrow or as pandas."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import Context, KeyedBatchProcessFunction, ListState, Record, ValueState
from mixedmode.operators.process.chunks import CHUNK_ROWS
from tests.operators.process.epochs import Epochs, operator_of

OUTPUT = {"k": pa.string(), "total": pa.int64()}


class Totals(KeyedBatchProcessFunction):
    total = ValueState(int, default=0)

    def process_rows(self, rows: pa.Table, context: Context) -> pa.Table:
        assert rows.column_names == ["k", "t", "v"]
        assert rows["t"].to_pylist() == sorted(rows["t"].to_pylist()), "in time order"
        assert context.timestamp is None
        self.total.value += pc.sum(rows["v"]).as_py()
        context.timers.register_event_time_timer(100)
        return pa.table({"total": pa.array([self.total.value], pa.int32()), "k": [context.current_key]})

    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"k": f"timer {context.current_key}", "total": self.total.value}


class PandasTotals(Totals):
    rows_as = "pandas"

    def process_rows(self, rows: pd.DataFrame, context: Context) -> Any:
        self.total.value += int(rows["v"].sum())
        context.timers.register_event_time_timer(100)
        yield pd.DataFrame({"k": [context.current_key], "total": [self.total.value]})


@pytest.mark.parametrize("function", [Totals, PandasTotals])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_all_records_of_a_key_come_at_once(function: Any, on_error: Any) -> None:
    epochs = Epochs(operator_of(function, OUTPUT, on_error=on_error), max_parallelism=1)
    first = epochs.run([("a", 3, 1), ("b", 2, 10), ("a", 1, 2), ("a", 2, 4)], is_backlog=True)
    assert first.rows == [{"k": "a", "total": 7}, {"k": "b", "total": 10}]
    second = epochs.run([("a", 5, 1)], watermark=100)
    assert second.rows == [{"k": "a", "total": 8}, {"k": "timer a", "total": 8}, {"k": "timer b", "total": 10}]


def test_a_key_with_more_records_than_a_chunk_comes_whole() -> None:
    epochs = Epochs(operator_of(Totals, OUTPUT))
    given = epochs.run([("a", i, 1) for i in range(2 * CHUNK_ROWS + 5)] + [("b", 0, 1)])
    assert sorted(row["total"] for row in given.rows) == [1, 2 * CHUNK_ROWS + 5]


class Shapes(KeyedBatchProcessFunction):
    def process_rows(self, rows: pa.Table, context: Context) -> Any:
        row = {"k": context.current_key, "total": 1}
        table = pa.Table.from_pylist([row])
        return {
            "none": None,
            "table": table,
            "batch": table.to_batches()[0],
            "frame": table.to_pandas(),
            "row": row,
            "rows": [row, row],
            "mixed": [row, table, table.to_pandas(), row],
            "empty": table.slice(1),
        }[context.current_key]


def test_what_it_gives_may_have_any_shape() -> None:
    expected = {"none": 0, "table": 1, "batch": 1, "frame": 1, "row": 1, "rows": 2, "mixed": 4, "empty": 0}
    given = Epochs(operator_of(Shapes, OUTPUT)).run([(key, 0, 0) for key in expected])
    counts = {key: sum(row["k"] == key for row in given.rows) for key in expected}
    assert counts == expected


class Wrong(KeyedBatchProcessFunction):
    seen = ListState(int)

    def __init__(self, given: Any) -> None:
        self.given = given

    def process_rows(self, rows: pa.Table, context: Context) -> Any:
        self.seen.append(1)
        return self.given


class Echo(KeyedBatchProcessFunction):
    """Emits the frame that it is given."""

    rows_as = "pandas"

    def process_rows(self, rows: pd.DataFrame, context: Context) -> pd.DataFrame:
        return rows[["v"]].assign(k=context.current_key, text=[str(value) for value in rows["v"]])


INT, NAN = 2**53 + 1, float("nan")


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([INT, None, 2**63 - 1], pa.int64()),
        ([True, None, False], pa.bool_()),
        ([0.5, None, float("inf")], pa.float64()),
        ([[INT, None], None, []], pa.list_(pa.int64())),
        ([{"a": INT}, None, {"a": None}], pa.struct([pa.field("a", pa.int64())])),
        ([[("x", None), ("y", INT)], None, []], pa.map_(pa.string(), pa.int64())),
        ([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
        ([datetime(1, 1, 1, tzinfo=UTC), None, datetime(9999, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        ([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
        ([b"", None, b"\0"], pa.binary()),
    ],
)
def test_a_frame_has_the_exact_values_whatever_shares_its_epoch(values: list[Any], data_type: pa.DataType) -> None:
    output = {"k": pa.string(), "v": data_type, "text": pa.string()}
    found = []
    for epochs in ([values], [[value] for value in values]):
        run = Epochs(operator_of(Echo, output, value_type=data_type))
        found.append([row for epoch in epochs for row in run.run([("k", 0, value) for value in epoch]).rows])
    assert [row["v"] for row in found[0]] == values
    assert found[0] == found[1], "also the text of a value"


def test_nan_and_null_stay_apart_in_a_frame() -> None:
    output = {"k": pa.string(), "v": pa.float64(), "text": pa.string()}
    run = Epochs(operator_of(Echo, output, value_type=pa.float64()))
    rows = run.run([("k", 0, NAN), ("k", 1, None)]).rows
    assert [repr(row["v"]) for row in rows] == ["nan", "None"]


MISMATCHES = [
    (pa.table({"k": ["a"]}), "the table has the columns k; the output has k, total"),
    (pa.table({"k": ["a"], "total": ["x"]}), "the field `total` is declared int64, and string does not fit"),
    (pd.DataFrame({"k": ["a"], "total": [0.5]}), "the field `total` is declared int64, and double does not fit"),
    (pa.table({"k": ["a"], "total": pa.array([2**63], pa.uint64())}), "uint64 does not fit"),
    (pd.DataFrame({"k": ["a", 5], "total": [1, 2]}), "the frame cannot be made a table"),
    ([{"k": "a", "total": "x"}], "the field `total` is declared int64, and the value does not fit"),
    (5, "a method must return a row, rows, or nothing, and it returned a int: 5"),
    ("text", "a method must return a row, rows, or nothing, and it returned a str: 'text'"),
]


@pytest.mark.parametrize(("given", "reason"), MISMATCHES)
def test_what_does_not_match_the_output_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        Epochs(operator_of(Wrong, OUTPUT, args={"given": given})).run([("k", 0, 0)])
    assert reason in str(caught.value)
    assert 'key="k"' in str(caught.value)


@pytest.mark.parametrize(("given", "reason"), MISMATCHES)
def test_or_skipped_with_all_records_of_the_key(given: Any, reason: str) -> None:
    epochs = Epochs(operator_of(Wrong, OUTPUT, args={"given": given}, on_error="dead-letter"))
    found = epochs.run([("k", 0, 0), ("k", 1, 0)])
    (letter,) = found.sides["dead-letter"]
    assert reason in letter["error"]
    assert letter["record"] is None
    assert found.rows == []
    assert not epochs.entries, "the state is as before"


class Mixed(KeyedBatchProcessFunction):
    """Rows for one key, a table for the next one, and a failure after a table for the last one."""

    def process_rows(self, rows: pa.Table, context: Context) -> Any:
        row = {"k": context.current_key, "total": 1}
        context.timers.register_event_time_timer(0)
        yield row
        if context.current_key != "a":
            yield pa.Table.from_pylist([row])
        if context.current_key == "c":
            raise ValueError

    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"k": f"timer {context.current_key}", "total": 0}


def test_a_failed_call_takes_back_its_own_tables_only() -> None:
    epochs = Epochs(operator_of(Mixed, OUTPUT, on_error="skip"), max_parallelism=1)
    given = epochs.run([("a", 0, 0), ("b", 0, 0), ("c", 0, 0), ("d", 0, 0)], watermark=1)
    assert [row["k"] for row in given.rows] == ["a", "timer a", "b", "b", "timer b", "d", "d", "timer d"]
    assert len(given.sides["skipped"]) == 1
