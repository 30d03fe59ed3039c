"""The operator around a function: what it declares, what it is told of the flip, large keys, quiet epochs, outputs."""

import pickle
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.keys import KeyGroupRange, KeySchema
from mixedmode.operators.classes import GivenClass, NamedClass
from mixedmode.operators.interface import Batch, KeyedOperator, OperatorAttributes, SubtaskContext
from mixedmode.operators.process import (
    PROCESS_FUNCTION,
    Context,
    KeyedProcessFunction,
    OpenContext,
    ProcessOperator,
    Record,
    RecordAttributes,
    ValueState,
)
from mixedmode.operators.process.calls import EMIT_ROWS, SEAL_ROWS
from mixedmode.operators.process.chunks import CHUNK_ROWS
from mixedmode.sort import sort_table
from mixedmode.state import SingleKeyBackend
from mixedmode.state.memory import MemoryBackend
from mixedmode.time import MIN_TIME_US, EpochTime
from tests.operators.process.epochs import Epochs, operator_of

OUTPUT = {"k": pa.string(), "n": pa.int64()}


class Counter(KeyedProcessFunction):
    seen = ValueState(int, default=0)

    def process_element(self, record: Record, context: Context) -> Record:
        self.seen.value += 1
        return {"k": context.current_key, "n": self.seen.value}


def test_it_is_a_keyed_operator_that_can_be_shipped() -> None:
    reference = NamedClass(PROCESS_FUNCTION, "tests.operators.process.test_operator", "Counter")
    operator: KeyedOperator = ProcessOperator(
        operator_id="1-step",
        function=reference,
        key_schema=KeySchema((pa.field("k", pa.string()),)),
        record_fields=(pa.field("k", pa.string()),),
        output_fields=(pa.field("n", pa.int64()),),
    )
    assert pickle.loads(pickle.dumps(operator)) == operator
    assert operator.output_key == ()
    assert operator.combine is None
    assert operator.attributes == OperatorAttributes(internal_sorter_supported=True)
    assert operator.side_outputs == {}
    assert [state.state_id for state in operator.states] == [0, 1, 2, 3]
    assert [field.name for field in operator.input_fields] == ["_a0", "_kind"]


class Telling(KeyedProcessFunction):
    """Tells what was called."""

    calls: ClassVar[list[Any]] = []

    def open(self, context: OpenContext) -> None:
        self.calls.append(("open", context.operator_id, context.is_backlog))

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        self.calls.append(("attributes", attributes.is_backlog))

    def process_element(self, record: Record, context: Context) -> None:
        self.calls.append(("element", context.is_backlog))

    def close(self) -> None:
        self.calls.append("close")


def test_a_function_is_told_when_backlog_begins_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = Epochs(operator_of(Telling, {}))
    told = []
    for is_backlog, records in [(True, 1), (True, 0), (False, 0), (False, 1), (True, 0)]:
        monkeypatch.setattr(Telling, "calls", [])
        epochs.run([("k", 0, 0)] * records, is_backlog=is_backlog)
        told.append(Telling.calls)
    assert told == [
        [("open", "1-step", True), ("attributes", True), ("element", True), "close"],
        [("open", "1-step", True), "close"],
        [("open", "1-step", False), ("attributes", False), "close"],
        [("open", "1-step", False), ("element", False), "close"],
        [("open", "1-step", True), ("attributes", True), "close"],
    ]


def test_records_of_a_key_come_in_the_order_of_their_times() -> None:
    class Order(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> Record:
            return {"k": context.current_key, "n": context.timestamp}

    times = np.random.default_rng(5).permutation(200) - 100
    given = Epochs(operator_of(Order, OUTPUT)).run([(f"k{t % 3}", int(t), 0) for t in times], slices=3)
    for key in ("k0", "k1", "k2"):
        own = [row["n"] for row in given.rows if row["k"] == key]
        assert own == sorted(own)
        assert len(own) == len({*own}) == sum(f"k{t % 3}" == key for t in times)


def test_a_key_with_more_records_than_a_chunk_is_one_turn() -> None:
    class Large(KeyedProcessFunction):
        """Deletes, with its last record, a timer that is due."""

        seen = ValueState(int, default=0)

        def process_element(self, record: Record, context: Context) -> Iterator[Record]:
            self.seen.value += 1
            if record["v"] == 1:
                context.timers.register_event_time_timer(10**6)
            elif record["v"] == 2:
                context.timers.delete_event_time_timer(10**6)
            if record["v"] or self.seen.value % 10_000 == 0:
                yield {"k": context.current_key, "n": self.seen.value}

        def on_timer(self, timestamp: int, context: Context) -> Record:
            return {"k": "timer", "n": self.seen.value}

    rows = 3 * CHUNK_ROWS + 7
    for is_deleted in (False, True):
        epochs = Epochs(operator_of(Large, OUTPUT), max_parallelism=1)
        epochs.run([("b", 0, 1)])
        records = [("b", i, 0) for i in range(rows)] + [("b", rows, 2 if is_deleted else 0), ("a", 0, 0), ("c", 0, 0)]
        given = epochs.run(records, watermark=10**6)
        expected = [{"k": "b", "n": n} for n in range(10_000, rows, 10_000)]
        expected.append({"k": "b", "n": rows + 2} if is_deleted else {"k": "timer", "n": rows + 2})
        assert given.rows == expected
        assert len(epochs.entries) == 3, "a row a key, and no timer left"


def test_many_rows_are_passed_on_before_the_end() -> None:
    class Loud(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> Iterator[Record]:
            for n in range(2_000):
                yield {"k": "x", "n": n}
            context.output("side", {"n": 1})

    side = (pa.field("n", pa.int64()),)
    operator = operator_of(Loud, OUTPUT, outputs={"side": side})
    keys = pa.array([f"k{i:02}" for i in range(100)])
    batch = Batch([keys], [keys, pa.nulls(100, pa.timestamp("us", tz="UTC")), pa.nulls(100, pa.int64())], None, None)
    table = sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=4).table)
    time = EpochTime(MIN_TIME_US, MIN_TIME_US, 0, None, True, None)
    context = SubtaskContext(SingleKeyBackend(None), time, KeyGroupRange(0, 4), 0)
    pieces = (table.slice(start, 20) for start in range(0, 100, 20))
    given = [(type(each).__name__, each.rows.num_rows) for each in operator.process(pieces, context)]
    assert given[-1] == ("SideRows", 100)
    assert sum(rows for _, rows in given[:-1]) == 200_000
    assert len(given) >= 4, "not all at the end"
    assert all(rows < EMIT_ROWS + SEAL_ROWS + 2_000 for _, rows in given)


def test_many_rows_of_one_key_are_passed_on_too() -> None:
    class Loud(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> list[Record]:
            context.timers.register_event_time_timer(context.timestamp or 0)
            return [{"k": "x", "n": 1}] * 300

        def on_timer(self, timestamp: int, context: Context) -> list[Record]:
            return [{"k": "x", "n": 2}] * 300

    given = Epochs(operator_of(Loud, OUTPUT)).run([("a", i, 0) for i in range(1_000)], watermark=1_000)
    assert [sum(row["n"] == n for row in given.rows) for n in (1, 2)] == [300_000, 300_000]


def test_of_keys_with_large_state_fewer_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hoarder(KeyedProcessFunction):
        text = ValueState(str, default="")

        def process_element(self, record: Record, context: Context) -> None:
            self.text.value += "x" * 1_000

    reads: list[int] = []

    class Watched(MemoryBackend):
        def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
            reads.append(len(keys))
            return super().read(state_id, keys)

    monkeypatch.setattr("tests.operators.process.epochs.MemoryBackend", Watched)
    monkeypatch.setattr("mixedmode.operators.process.turns.CHUNK_BYTES", 50_000)
    epochs = Epochs(operator_of(Hoarder, {}))
    epochs.emit_bytes = 2**22
    records = [(f"k{i}", 0, 0) for i in range(2_000)]
    for _ in range(2):
        reads.clear()
        epochs.run(records)
        assert max(reads[1:]) < 50, "after the first look"
        assert sum(reads) == 2_000


def test_a_quiet_epoch_reads_and_writes_nothing_and_gives_nothing() -> None:
    epochs = Epochs(operator_of(Counter, OUTPUT))
    given = epochs.run()
    assert (given.rows, given.sides, epochs.pairs_written) == ([], {}, 0)


def test_results_do_not_depend_on_parallelism_nor_on_how_the_input_is_cut() -> None:
    records = [(f"k{i % 17}", i, i) for i in range(200)]
    expected = sorted((f"k{i % 17}", i // 17 + 1) for i in range(200))
    for parallelism in (1, 2, 4):
        for slices in (1, 5):
            epochs = Epochs(operator_of(Counter, OUTPUT))
            rows = epochs.run(records[:100], is_backlog=True, parallelism=parallelism, slices=slices).rows
            rows += epochs.run(records[100:], parallelism=5 - parallelism, slices=slices).rows
            assert sorted((row["k"], row["n"]) for row in rows) == expected


def test_a_key_of_several_columns_is_a_tuple_and_without_event_time_there_is_no_timestamp() -> None:
    class Show(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> Record:
            assert context.timestamp is None
            return {"shown": repr((context.current_key, dict(record)))}

    fields = (pa.field("user", pa.int64()), pa.field("day", pa.date32()), pa.field("price", pa.decimal128(6, 2)))
    operator = ProcessOperator(
        operator_id="1-step",
        function=GivenClass(PROCESS_FUNCTION, Show),
        key_schema=KeySchema(fields[:2]),
        record_fields=fields,
        output_fields=(pa.field("shown", pa.string()),),
        has_event_time=False,
    )
    columns = [
        pa.array([5, None], pa.int64()),
        pa.array([date(2024, 1, 2), date(1900, 1, 1)]),
        pa.array([Decimal("1.50"), None], pa.decimal128(6, 2)),
    ]
    folded = operator.fold(Batch(columns[:2], columns, None, None), late_us=0, max_parallelism=1)
    time = EpochTime(MIN_TIME_US, MIN_TIME_US, 0, None, False, False)
    context = SubtaskContext(SingleKeyBackend(None), time, KeyGroupRange(0, 1), 0)
    rows = [
        row for each in operator.process(iter([sort_table(folded.table)]), context) for row in each.rows.to_pylist()
    ]
    assert [row["shown"] for row in rows] == [
        repr(((None, date(1900, 1, 1)), {"user": None, "day": date(1900, 1, 1), "price": None})),
        repr(((5, date(2024, 1, 2)), {"user": 5, "day": date(2024, 1, 2), "price": Decimal("1.50")})),
    ]


def test_rows_may_be_given_in_any_way() -> None:
    class Many(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> Any:
            row = {"n": record["v"], "k": "x"}  # in another order than declared
            return [None, row, [row, row], (r for r in [row]), iter([]), pa.scalar(row) and row][record["v"]]

    given = Epochs(operator_of(Many, OUTPUT)).run([("k", i, i) for i in range(6)])
    assert [row["n"] for row in given.rows] == [1, 2, 2, 3, 5]
    assert list(given.rows[0]) == ["k", "n"]


def test_a_timestamp_may_be_given_as_a_datetime_or_in_microseconds() -> None:
    class Times(KeyedProcessFunction):
        def process_element(self, record: Record, context: Context) -> Iterator[Record]:
            yield {"at": context.timestamp}
            yield {"at": record["t"]}
            yield {"at": None}

    given = Epochs(operator_of(Times, {"at": pa.timestamp("us", tz="UTC")})).run([("k", 1_500_000, 0)])
    first, second, third = (row["at"] for row in given.rows)
    assert first == second == datetime.fromisoformat("1970-01-01T00:00:01.500000+00:00")
    assert third is None
