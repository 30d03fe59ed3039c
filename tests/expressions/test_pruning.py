"""Row groups that are left out have no row that passes: the rows are those of the same query over all row groups."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.connectors.files.file_slices import FileSlice
from mixedmode.connectors.files.parquet_files import read_for, read_slices
from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Bounds, Call, Column, Literal, Node, Nodes, Query, evaluate, may_pass
from mixedmode.plan.job_plan import ReadColumn

NAN = float("nan")
BEGIN = datetime(2001, 9, 8, tzinfo=UTC)
#: values of each column, of which few lie in a row group
VALUES: dict[str, tuple[pa.DataType, Sequence[object]]] = {
    "i": (pa.int32(), [-(2**31), -2, 0, 1, 7, 2**31 - 1, None]),
    "l": (pa.int64(), [-(2**63), -5, 0, 3, 7, 2**63 - 1, None]),
    "f": (pa.float64(), [NAN, -0.0, 0.0, 1.5, -2.5, float("inf"), None]),
    "t": (pa.string(), ["", "a", "ab", "ä", "zz" * 60, "\U0010ffff", None]),
    "x": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff\xff", None]),
    "d": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2001, 9, 8), date(9999, 12, 31), None]),
    "w": (pa.timestamp("us", "UTC"), [BEGIN, BEGIN - timedelta(microseconds=1), BEGIN + timedelta(days=1), None]),
    "b": (pa.bool_(), [True, False, None]),
}
COMPARED = ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "EqualNullSafe")


def literal(name: str, value: object) -> Literal:
    """A constant in the form of the plan: days and microseconds instead of times."""
    data_type = VALUES[name][0]
    scalar = pa.scalar(value, data_type)
    if value is not None and (pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type)):
        scalar = scalar.cast(pa.int32() if pa.types.is_date32(data_type) else pa.int64())
    return Literal(scalar.as_py(), data_type)


@st.composite
def conditions(draw: st.DrawFn, nodes: Nodes, depth: int = 2) -> int:
    """The number of a condition of the kinds that are known, and of some that are not."""
    kind = draw(
        st.sampled_from(("compare", "null", "in", "cast", "flag", "constant", "remainder", *("logic",) * depth))
    )
    if kind == "logic":
        word = draw(st.sampled_from(("And", "Or", "Not")))
        sides = [draw(conditions(nodes, depth - 1)) for _ in range(1 if word == "Not" else 2)]
        return nodes.add(Call(word, tuple(sides), pa.bool_()))
    if kind == "constant":
        return nodes.add(Literal(draw(st.sampled_from((True, False, None))), pa.bool_()))
    if kind == "flag":
        return nodes.add(Column("b", pa.bool_()))
    name = {"cast": draw(st.sampled_from("iw")), "remainder": "i", "in": draw(st.sampled_from("iltd"))}.get(
        kind, draw(st.sampled_from(list(VALUES)))
    )
    data_type, values = VALUES[name]
    column = nodes.add(Column(name, data_type))
    if kind == "null":
        return nodes.add(Call(draw(st.sampled_from(("IsNull", "IsNotNull"))), (column,), pa.bool_()))
    if kind == "in":
        options = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        return nodes.add(Call("In", (column, *(nodes.add(literal(name, one)) for one in options)), pa.bool_()))
    if kind == "remainder":  # it may raise
        divided = nodes.add(Call("Remainder", (nodes.add(literal("i", 7)), column), pa.int32(), ("ANSI",), "7 % i"))
        return nodes.add(Call("EqualTo", (divided, nodes.add(literal("i", 1))), pa.bool_()))
    if kind == "cast":
        name, other = ("l", "l") if name == "i" else ("d", "d")
        column = nodes.add(Call("Cast", (column,), VALUES[other][0], ("ANSI", "UTC"), "cast"))
    sides = [column, nodes.add(literal(name, draw(st.sampled_from(VALUES[name][1]))))]
    if draw(st.booleans()):
        sides.reverse()
    return nodes.add(Call(draw(st.sampled_from(COMPARED)), tuple(sides), pa.bool_()))


@st.composite
def queries(draw: st.DrawFn) -> Query:
    nodes = Nodes()
    filters = [draw(conditions(nodes)) for _ in range(draw(st.integers(0, 2)))]
    names = draw(st.lists(st.sampled_from(list(VALUES)), max_size=3, unique=True))
    return nodes.query(filters, [(name, nodes.add(Column(name, VALUES[name][0]))) for name in names])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Two to six row groups of four rows, each with one or two values of each column."""
    columns: dict[str, list[object]] = {name: [] for name in VALUES}
    for _ in range(draw(st.integers(2, 6))):
        for name, (_, values) in VALUES.items():
            few = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
            columns[name] += [few[place % len(few)] for place in range(4)]
    return pa.table({name: pa.array(values, VALUES[name][0]) for name, values in columns.items()})


READ = [ReadColumn(name, data_type, name) for name, (data_type, _) in VALUES.items()]


def outcome(batches: object) -> list[object] | str:
    """The rows, without those of empty batches, or the cause of an error."""
    assert hasattr(batches, "__iter__")
    try:
        return [repr(row) for batch in batches for row in batch.to_pylist()]
    except InvalidJobError as error:
        return str(error)


@given(table=tables(), some=st.lists(queries(), min_size=1, max_size=3), cut=st.integers(0, 100))
def test_the_rows_are_those_of_all_row_groups_also_of_a_file_that_is_cut(
    table: pa.Table, some: list[Query], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "pruned.parquet")
    pq.write_table(table, path, row_group_size=4, use_dictionary=table.num_rows % 8 == 0)
    whole = [FileSlice.whole(path)]
    slices = [FileSlice(path, 0, cut, 100), FileSlice(path, cut, 100, 100)]
    told: list[float] = []
    for query in some:  # alone and together: in one batch, the rows of one query come before those of the next
        expected = outcome(evaluate([query], read_slices(whole, READ)))
        found = outcome(
            rows for passed, batch in read_for(slices, READ, [query], told.append) for rows in evaluate(passed, [batch])
        )
        assert found == expected if query.columns else True
    together = outcome(
        rows for passed, batch in read_for(slices, READ, some, told.append) for rows in evaluate(passed, [batch])
    )
    expected = outcome(evaluate(some, read_slices(whole, READ)))
    assert isinstance(together, str) == isinstance(expected, str)
    if not isinstance(together, str):
        assert sorted(map(str, together)) == sorted(map(str, expected))


def compared(kind: str, value: object, data_type: pa.DataType = VALUES["t"][0]) -> Query:
    nodes: tuple[Node, ...] = (
        Column("v", data_type),
        Literal(value, data_type),  # type: ignore[arg-type]
        Call(kind, (0, 1), pa.bool_()),
    )
    return Query(nodes, (2,), (("v", 0),))


def test_only_a_row_group_with_a_value_in_the_range_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array(range(100), pa.int64()), "unused": ["x"] * 100}), path, row_group_size=10)
    columns = [ReadColumn("V", pa.int64(), "v"), ReadColumn("unused", pa.string(), "unused")]
    told: list[float] = []
    query = compared("EqualTo", 42, pa.int64())
    ((_, batch),) = read_for([FileSlice.whole(path, 1000)], columns, [query], told.append)
    assert batch.to_pydict() == {"v": list(range(40, 50))}, "one row group, and the only column that is used"
    assert sum(told) == pytest.approx(1000), "what is left out counts as read"


def test_a_wrong_type_is_refused_although_no_row_group_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array(range(10), pa.int64()), "other": ["x"] * 10}), path)
    columns = [ReadColumn("v", pa.int64(), "v"), ReadColumn("other", pa.int64(), "other")]
    with pytest.raises(InvalidJobError, match="column=other, type_in_file=string"):
        list(read_for([FileSlice.whole(path)], columns, [compared("EqualTo", 42, pa.int64())]))


def test_bounds_of_texts_that_are_cut_short_lose_no_row() -> None:
    cut = {"v": Bounds(b"ab", b"b", has_null=False)}  # of "abc" and "azz": a writer cuts, and counts the last byte up
    assert may_pass(compared("EqualTo", "azz"), cut)
    assert may_pass(compared("LessThan", "abb"), cut)
    assert not may_pass(compared("LessThan", "ab"), cut)
    assert not may_pass(compared("GreaterThan", "b"), cut)


def test_a_column_of_a_file_with_another_type_has_no_bounds(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array([1, 2], pa.int32())}), path)
    query = compared("EqualTo", 9.0, pa.float64())
    (found,) = read_for([FileSlice.whole(path)], [ReadColumn("v", pa.float64(), "v")], [query])
    assert found[1].to_pydict() == {"v": [1.0, 2.0]}
