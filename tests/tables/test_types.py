"""Every type of the mapping, from Arrow to a table and back, against what plain Python says the table has to hold."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.postgres.types import ActualType, created_as, holds
from mixedmode.connectors.sqlite import types as sqlite_types
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.tables.text import as_text as text_of
from tests.random_cases import random_cases
from tests.tables.places import Place

INF, NAN = math.inf, math.nan
POINT = pa.struct([("x", pa.int32()), ("y name", pa.string())])
#: {name: (type, values)}; each column gets NULL behind them
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-(2**7), 2**7 - 1]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1]),
    "large": (pa.int64(), [-(2**63), 2**63 - 1]),
    "single": (pa.float32(), [1.5, -INF, INF, NAN]),
    "double": (pa.float64(), [0.1, 1e300, 5e-324, -INF, INF, NAN]),
    "amount": (pa.decimal128(38, 10), [Decimal("1E-10"), Decimal("-1234567890123456789012345678.0123456789")]),
    "money": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-9999999.99")]),
    "text": (pa.string(), ["", "NULL", "\\N", "\\.", 'a "b", c', "two\nlines\r", "\t", " 'x' ", "Grüße €𝄞", "\x01"]),
    "wide": (pa.large_string(), ["", "x" * 70_000]),
    "bytes": (pa.binary(), [b"", b"\x00\xff\\x", b"plain"]),
    "wide_bytes": (pa.large_binary(), [b"", bytes(range(256))]),
    "day": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)]),
    "local": (pa.timestamp("us"), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),  # noqa: DTZ001
    "clock": (pa.time64("us"), [time(0), time(23, 59, 59, 999_999)]),
    "while": (pa.duration("us"), [timedelta(0), timedelta(days=-3, microseconds=7), timedelta(days=40_000)]),
    "list": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "texts": (pa.list_(pa.string()), [["a", '"', "\\", "\n", None, ""]]),
    "point": (POINT, [{"x": 1, "y name": "z"}, {"x": None, "y name": None}]),
    "points": (pa.list_(POINT), [[{"x": 1, "y name": "z"}, None], []]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.5), ('b"', None)], [], [("n", NAN), ("i", INF)]]),
    "by_number": (pa.map_(pa.int32(), pa.list_(pa.bool_())), [[(7, [True]), (8, None)]]),
    "inner": (pa.struct([("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(20, 9)), ("b", pa.binary())]),
              [{"at": datetime(2024, 1, 1, tzinfo=UTC), "d": Decimal("1E-9"), "b": b"\x01\xfe"}]),
}  # fmt: skip


def plain(value: Any, data_type: pa.DataType) -> Any:
    """Return a value as JSON holds it."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return {str(key): plain(item, data_type.item_type) for key, item in value}
    if pa.types.is_list(data_type):
        return [plain(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        return {one.name: plain(value[one.name], one.type) for one in data_type}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bool | int | float):
        return value
    return as_text(value)


def as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}{'Z' if value.tzinfo else ''}"
    if isinstance(value, time):
        return value.isoformat("microseconds")
    if isinstance(value, Decimal):
        return format(value, "f")
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)


def expected_in_sqlite(value: Any, data_type: pa.DataType) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if pa.types.is_nested(data_type):
        return plain(value, data_type)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, float):
        return value + 0.0  # SQLite has one zero: it stores -0.0 as 0.0
    return (
        int(value) if isinstance(value, bool) else value if isinstance(value, int | float | bytes) else as_text(value)
    )


def told(value: Any) -> str:
    """To be compared, since NaN equals nothing and 1 equals True; jsonb has an order of keys of its own."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else repr(value)


def expected_in_postgres(value: Any, data_type: pa.DataType) -> Any:
    return plain(value, data_type) if pa.types.is_nested(data_type) else value


@pytest.mark.parametrize("epoch", [0, 1])
def test_every_type_comes_back_as_it_went(place: Place, epoch: int) -> None:
    """In epoch 0 the rows go straight into the empty table, in epoch 1 by way of another one."""
    fields = [pa.field("i", pa.int32()), *(pa.field(name, data_type) for name, (data_type, _) in COLUMNS.items())]
    sink = place.sink()
    sink.prepare(fields, ["i"], is_fresh=True)
    if epoch:
        sink.publish(Epoch(0), [place.stage(sink, 0, [("upsert", 0, *(None for _ in COLUMNS))], fields=fields)])
    rows = [("upsert", i, *row) for i, row in enumerate(zip(*padded(), strict=True))]
    sink.publish(Epoch(epoch), [place.stage(sink, epoch, rows, fields=fields)])
    for (name, (data_type, _)), values in zip(COLUMNS.items(), padded(), strict=True):
        found = [value for _, value in place.sql(f'SELECT i, "{name}" FROM totals ORDER BY i')]
        if place.kind == "sqlite":
            found = [json.loads(v) if v is not None and pa.types.is_nested(data_type) else v for v in found]
            expected = [expected_in_sqlite(value, data_type) for value in values]
        else:
            found = [bytes(v) if isinstance(v, memoryview) else v for v in found]
            found = [v.astimezone(UTC) if isinstance(v, datetime) and v.tzinfo else v for v in found]
            expected = [expected_in_postgres(value, data_type) for value in values]
        assert list(map(told, found)) == list(map(told, expected)), name


def padded() -> list[list[Any]]:
    """Return the values of each column, with NULL behind them, so that all columns have equally many."""
    longest = max(len(values) for _, values in COLUMNS.values())
    return [[*values, *[None] * (longest + 1 - len(values))] for _, values in COLUMNS.values()]


@pytest.mark.parametrize(("name", "key"), [("text", "a"), ("day", date(2024, 1, 1)), ("amount", Decimal("1E-10")),
                                           ("at", datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)), ("bytes", b"\x00"),
                                           ("double", 0.1), ("flag", False)])  # fmt: skip
def test_a_key_of_any_type_is_updated_and_deleted(place: Place, name: str, key: Any) -> None:
    fields = [pa.field(name, COLUMNS[name][0]), pa.field("n", pa.int64())]
    sink = place.sink()
    sink.prepare(fields, [name], is_fresh=True)
    for epoch, operation in enumerate(["upsert", "upsert", "delete"]):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, [(operation, key, epoch)], fields=fields)])
        assert place.sql("SELECT n FROM totals") == ([] if operation == "delete" else [(epoch,)])


#: {days since 1970: the date}; years beyond 32767 have more than 16 bits
FAR_DAYS = {-12_687_795: "-32769-12-31", 0: "1970-01-01", 11_248_737: "32767-12-31", 11_248_738: "32768-01-01",
            106_651_000: "293970-07-10"}  # fmt: skip
FAR_TYPES = {pa.date32(): "", pa.timestamp("us"): " 23:59:59.999999", pa.timestamp("us", "UTC"): " 23:59:59.999999Z"}


def far_moments(kind: pa.DataType, days: list[int]) -> pa.Array:
    """Return the ends of days, and NULL."""
    if pa.types.is_date32(kind):
        return pa.array([*days, None], pa.int32()).cast(kind)
    return pa.array([*((day + 1) * 86_400_000_000 - 1 for day in days), None], pa.int64()).cast(kind)


@pytest.mark.parametrize("kind", FAR_TYPES, ids=str)
def test_years_with_more_than_16_bits_are_written_right(kind: pa.DataType) -> None:
    values = far_moments(kind, list(FAR_DAYS))
    texts = [*(f"{date}{FAR_TYPES[kind]}" for date in FAR_DAYS.values()), None]
    assert text_of(values).to_pylist() == texts
    structs = pa.StructArray.from_arrays([values], names=["x"])
    assert [json.loads(text)["x"] for text in text_of(structs).to_pylist()] == texts
    assert text_of(far_moments(kind, [-(2**63) // 86_400_000_000])).to_pylist()[0].startswith("-290308-12-21")


@pytest.mark.parametrize("kind", FAR_TYPES, ids=str)
def test_a_table_has_years_with_more_than_16_bits(place: Place, kind: pa.DataType) -> None:
    day = 106_651_000
    sink = place.sink()
    fields = [pa.field("k", pa.string()), pa.field("at", kind)]
    sink.prepare(fields, ["k"], is_fresh=True)
    columns = [["insert", "insert"], ["far", "null"], far_moments(kind, [day])]
    sink.publish(Epoch(0), [place.stage_table(sink, 0, pa.table(columns, names=["_op", "k", "at"]))])
    ((found,),) = place.sql("SELECT CAST(at AS text) FROM totals WHERE k = 'far'")
    expected = f"{FAR_DAYS[day]}{FAR_TYPES[kind]}"
    assert found == (expected if place.kind == "sqlite" else expected.replace("Z", "+00"))


def not_folded(moment: datetime) -> datetime:
    return moment.replace(fold=0)


@given(rows=st.lists(st.tuples(
    st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.none() | st.binary(),
    st.none() | st.floats(),
    st.none() | st.decimals(places=4, allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9),
    st.none() | st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(UTC)).map(not_folded),  # noqa: DTZ001
    st.none() | st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
), max_size=20))  # fmt: skip
@settings(max_examples=random_cases(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_passes_the_csv_or_the_parameters(place: Place, rows: list[tuple[Any, ...]]) -> None:
    types = [
        pa.string(),
        pa.binary(),
        pa.float64(),
        pa.decimal128(20, 4),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.string()),
    ]
    names = [f"c{i}" for i in range(len(types))]
    fields = [pa.field("i", pa.int64()), *(pa.field(name, one) for name, one in zip(names, types, strict=True))]
    sink = place.sink(generation=0, replaces=True)
    sink.prepare(fields, ["i"], is_fresh=True)
    staged = [("upsert", i, *row) for i, row in enumerate(rows)]
    sink.publish(Epoch(0), [place.stage(sink, 0, staged, fields=fields)] if rows else [])
    found = place.sql(f"SELECT {', '.join(names)} FROM totals ORDER BY i")
    if place.kind == "sqlite":
        found = [(*row[:-1], None if row[-1] is None else json.loads(row[-1])) for row in found]
        expected = [tuple(map(expected_in_sqlite, row, types)) for row in rows]
    else:
        found = [tuple(v.astimezone(UTC) if isinstance(v, datetime) else v for v in row) for row in found]
        expected = [tuple(map(expected_in_postgres, row, types)) for row in rows]
    assert [list(map(told, row)) for row in found] == [list(map(told, row)) for row in expected]


def test_text_that_the_database_cannot_hold_is_refused_with_its_row(postgres_place: Place) -> None:
    fields = [pa.field("i", pa.int32()), pa.field("t", pa.string())]
    sink = postgres_place.sink()
    sink.prepare(fields, ["i"], is_fresh=True)
    rows = [("upsert", 1, "fine"), ("upsert", 2, "not\0fine")]
    with pytest.raises(InvalidJobError, match=r"invalid byte sequence .*0x00.*row=\{i: 2, t: 'not\\x00fine'\}"):
        sink.publish(Epoch(0), [postgres_place.stage(sink, 0, rows, fields=fields)])


def test_a_type_without_a_place_in_a_table_is_told_by_column(place: Place) -> None:
    with pytest.raises(InvalidJobError, match=r"has no type for a column of this output.*column=x, type=null$"):
        place.sink().prepare([pa.field("k", pa.string()), pa.field("x", pa.null())], ["k"], is_fresh=True)


@pytest.mark.parametrize(("declared", "data_type", "is_held"), [
    ("bigint", pa.int32(), True), ("smallint", pa.int32(), False), ("numeric(10, 0)", pa.int32(), True),
    ("numeric(9, 0)", pa.int32(), False), ("numeric", pa.int64(), True), ("numeric(12, 4)", pa.decimal128(10, 2), True),
    ("numeric(12, 1)", pa.decimal128(10, 2), False), ("numeric(10, 3)", pa.decimal128(10, 2), False),
    ("varchar(3)", pa.string(), True), ("uuid", pa.string(), True), ("mood", pa.string(), True),
    ("short", pa.string(), True), ("price", pa.decimal128(8, 2), True), ("price", pa.decimal128(10, 2), False),
    ("date", pa.string(), False), ("timestamp", pa.timestamp("us", "UTC"), False), ("real", pa.float64(), False),
    ("double precision", pa.float32(), True), ("json", POINT, True), ("text", POINT, False),
    ("text[]", pa.string(), False), ("timestamptz(6)", pa.timestamp("us", "UTC"), True),
    ("timestamptz(0)", pa.timestamp("us", "UTC"), False), ("timestamp(3)", pa.timestamp("us"), False),
    ("time(5)", pa.time64("us"), False), ("interval(6)", pa.duration("us"), True),
    ("interval(2)", pa.duration("us"), False), ("interval day to second", pa.duration("us"), True),
    ("interval day to minute", pa.duration("us"), False), ("interval second(3)", pa.duration("us"), False),
    ("seconds", pa.timestamp("us", "UTC"), False),
])  # fmt: skip
def test_which_types_of_a_users_own_are_taken(
    postgres_place: Place, declared: str, data_type: pa.DataType, is_held: bool
) -> None:
    place = postgres_place
    place.sql("CREATE TYPE mood AS ENUM ('good', 'bad')")
    place.sql("CREATE DOMAIN short AS varchar(4) CHECK (VALUE <> 'no')")
    place.sql("CREATE DOMAIN price AS numeric(8, 2)")
    place.sql("CREATE DOMAIN seconds AS timestamptz(0)")
    place.sql(f"CREATE TABLE totals (k text PRIMARY KEY, v {declared})")
    fields = [pa.field("k", pa.string()), pa.field("v", data_type)]
    if is_held:
        place.sink().prepare(fields, ["k"], is_fresh=True)
    else:
        with pytest.raises(InvalidJobError, match=r"column v is .* and has to be "):
            place.sink().prepare(fields, ["k"], is_fresh=True)


@pytest.mark.parametrize(("declared", "data_type", "is_held"), [
    ("BIGINT", pa.int64(), True), ("BOOLEAN", pa.bool_(), True), ("VARCHAR(10)", pa.string(), True),
    ("NUMERIC", pa.string(), False), ("DECIMAL(10,2)", pa.decimal128(10, 2), False),
    ("TEXT", pa.decimal128(10, 2), True),
    ("TIMESTAMP", pa.timestamp("us"), True), ("", pa.string(), True), ("TEXT", pa.int64(), False),
    ("DOUBLE", pa.float64(), True), ("INT", pa.float64(), False), ("BLOB", pa.binary(), True), ("JSON", POINT, True),
])  # fmt: skip
def test_which_declared_types_of_sqlite_change_nothing(declared: str, data_type: pa.DataType, is_held: bool) -> None:
    assert sqlite_types.holds(declared, pa.field("v", data_type)) is is_held


def test_a_decimal_is_created_as_wide_as_it_is() -> None:
    field = pa.field("d", pa.decimal128(12, 3))
    assert created_as(field) == "numeric(12, 3)"
    assert holds(ActualType("numeric", "numeric(12,3)", precision=12, scale=3), field)
