"""The rows of a table from the records of its changes, epoch by epoch and in the backlog, against plain Python."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.config.apply_changes import VERSION_COLUMNS
from mixedmode.errors import InvalidJobError
from mixedmode.job.apply_changes import ApplyChangesArguments
from mixedmode.keys import KeySchema
from mixedmode.operators.apply_changes import END, START, ApplyChangesOperator
from mixedmode.operators.top import OrderColumn, RowLayout
from mixedmode.testing import ApplyChangesHarness
from tests.operators.apply_changes.oracle import current, history
from tests.operators.epochs import MemoryState, map_side, run_epoch
from tests.random_cases import random_cases

SCHEMA = "k string, seq bigint, gone boolean, x bigint, f double, s string"
ROW = ("x", "f", "s")
RECORD = st.tuples(
    st.sampled_from("abc"),
    st.integers(0, 9),
    st.sampled_from([False, False, None, True]),
    st.none() | st.integers(0, 1),
    st.sampled_from([None, 0.0, -0.0, float("nan")]),
    st.none() | st.sampled_from(["", "é"]),
).map(lambda values: dict(zip(("k", "seq", "gone", *ROW), values, strict=True)))


def harness_of(more: ApplyChangesArguments, **settings: Any) -> ApplyChangesHarness:
    own: ApplyChangesArguments = {"delete_when": "gone", "except_columns": ["seq", "gone"], **more}
    return ApplyChangesHarness(own, sequence_by="seq", schema=SCHEMA, key_by="k", **settings)


def as_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(dict(sorted(row.items()))) for row in rows)


@settings(max_examples=random_cases(200))
@given(st.data())
def test_any_order_and_any_division_into_epochs_makes_the_table_of_plain_python(data: st.DataObject) -> None:
    records = data.draw(st.lists(RECORD, max_size=30))
    tracked = data.draw(st.none() | st.lists(st.sampled_from(ROW), unique=True))
    more: ApplyChangesArguments = {}
    if tracked is not None:
        more = {"history": True} if len(tracked) == len(ROW) else {"history": True, "track": tracked}
        if not tracked:
            more = {"history": True, "track_except": ROW}
    at = data.draw(st.integers(0, len(records)))
    harness = harness_of(more, backlog=at > 0, sort_memory=data.draw(st.sampled_from(["1KB", "1MB"])))
    seen: dict[tuple[Any, ...], str] = {}

    def check(count: int) -> None:
        expected = current(records[:count], ROW) if tracked is None else history(records[:count], ROW, tracked)
        assert as_texts(harness.table()) == as_texts(expected)
        for change in harness.take():
            key = (change["k"], change.get("__START_AT"))
            row = repr({name: value for name, value in change.items() if name != "_op"})
            assert (change["_op"] == "insert") == (key not in seen), change
            before = seen.pop(key, None)
            if change["_op"] != "delete":
                assert row != before, "a row that does not change is not emitted"
                seen[key] = row

    harness.feed(records[:at])
    if at:
        harness.flip()
        check(at)
        if data.draw(st.booleans()):
            harness = harness_of(more).restore(harness.snapshot(), parallelism=2)
    while at < len(records):
        more_records = data.draw(st.integers(1, 8))
        harness.feed(records[at : at + more_records])
        at = min(at + more_records, len(records))
        check(at)


KEY = pa.field("k", pa.string())
LAYOUT = RowLayout(
    KeySchema((KEY,)),
    (OrderColumn(pa.int64(), descending=False, nulls_first=True), OrderColumn(pa.bool_(), False, True)),
    (pa.field("x", pa.int64()),),
)
SMALL = st.tuples(st.sampled_from("abcdef"), st.integers(0, 5), st.booleans(), st.integers(0, 1))


@settings(max_examples=random_cases(60))
@given(
    epochs=st.lists(st.lists(SMALL, max_size=8), min_size=1, max_size=5), at=st.integers(0, 4), versions=st.booleans()
)
def test_a_reader_that_begins_later_gets_the_table_once_and_then_its_changes(
    epochs: list[list[tuple[Any, ...]]], at: int, versions: bool
) -> None:
    operator = ApplyChangesOperator(
        LAYOUT, (1, 2), deletes=True, tracked=(0,) if versions else None, where="", emits_retractions=True
    )
    state, rows, records = MemoryState(), Counter[str](), list[Mapping[str, Any]]()
    for number, epoch in enumerate(epochs):
        records += [dict(zip(("k", "seq", "gone", "x"), each, strict=True)) for each in epoch]
        columns = [pa.array([each[at] for each in epoch], kind) for at, kind in ((3, pa.int64()), (1, pa.int64()))]
        keys = [pa.array([each[0] for each in epoch], pa.string())]
        gone = pa.array([each[2] for each in epoch], pa.bool_())
        table = map_side(operator, keys, [*columns, gone], weights=None, times_us=None)
        now = replace(operator, emits_full_snapshot=number == at)
        changes = run_epoch(now, state, table)
        if number < at:
            continue
        for change in changes:
            for row in change.changelog().to_pylist():
                rows[repr({name: value for name, value in row.items() if name != "_weight"})] += row["_weight"]
        expected = history(records, ["x"], ["x"]) if versions else current(records, ["x"])
        assert +rows == Counter(map(repr, expected))
        assert min(rows.values(), default=0) >= 0


def record(seq: int | None, x: int, *, k: str | None = "a", gone: bool = False) -> dict[str, Any]:
    return {"k": k, "seq": seq, "gone": gone, "x": x, "f": None, "s": None}


def test_the_last_record_counts_in_any_order_of_arrival() -> None:
    harness = harness_of({})
    harness.feed([record(2, 20), record(1, 10)])
    harness.feed([record(1, 11), record(3, 0, gone=True)])
    harness.feed([record(2, 21)])
    assert [(row["x"], row["_op"]) for row in harness.take()] == [(20, "insert"), (None, "delete")]
    assert harness.table() == []
    harness.feed([record(4, 40)])
    assert [(row["x"], row["_op"]) for row in harness.take()] == [(40, "insert")]


def test_a_late_record_divides_a_version() -> None:
    harness = harness_of({"history": True})
    harness.feed([record(1, 1), record(9, 1)])
    assert [(row[START], row["x"], row[END]) for row in harness.table()] == [(1, 1, None)]
    harness.feed([record(5, 2)])
    assert [(row[START], row["x"], row[END], row["_op"]) for row in harness.take()][1:] == [
        (1, 1, 5, "update"),
        (5, 2, 9, "insert"),
        (9, 1, None, "insert"),
    ]
    harness.feed([record(5, 0, gone=True)])
    assert [(row[START], row["x"], row[END]) for row in harness.table()] == [(1, 1, 5), (9, 1, None)]


def test_columns_that_are_not_tracked_are_those_of_the_last_record_of_a_version() -> None:
    harness = harness_of({"history": True, "track": "s"})
    harness.feed([record(1, 1), record(2, 2)])
    harness.feed([record(3, 3)])
    assert [(row[START], row["x"], row[END]) for row in harness.table()] == [(1, 3, None)]


def test_the_state_without_history_has_one_record_of_a_key() -> None:
    harness = harness_of({})
    for seq in range(5):
        harness.feed([record(seq, seq, gone=seq == 4)])
    assert harness.state_entries == 1


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (record(None, 1), "a record of a change has no sequence.*column=sequence-by, records=1"),
        (record(1, 1, k=None), "a record of a change has no key.*column=k, records=1"),
    ],
)
def test_a_record_without_a_key_or_a_sequence_stops_the_job(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidJobError, match=problem):
        harness_of({}).feed([record(1, 1), wrong])


def test_the_columns_of_a_version_have_the_names_that_the_settings_refuse() -> None:
    assert (START, END) == VERSION_COLUMNS
