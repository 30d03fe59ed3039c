"""Map functions as the operator calls them: what is called when, what they may give, and errors that name the place."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.map import MAP_FUNCTION, KeptList, MapOperator
from mixedmode.process import MapContext, MapFunction, Record
from tests.operators.map.functions import Failing, Filtered, Lists, Repeated, Told, Twisted, Whole

FIELDS = (pa.field("v", pa.int64()),)
CONTEXT = MapContext("map-1", 0, 1, 0, is_backlog=False, processing_time=0, current_watermark=0)


def operator_of(function: type[MapFunction], **args: Any) -> MapOperator:
    return MapOperator("map-1", GivenClass(MAP_FUNCTION, function, args), FIELDS, FIELDS)


def run(operator: MapOperator, *tables: list[int], items: tuple[str, ...] = ()) -> tuple[list[Any], tuple[str, ...]]:
    """(values of the rows that it gives, what it keeps) of one epoch."""
    values: list[Any] = []
    kept: tuple[str, ...] = ()
    given = (pa.table({"v": pa.array(table, pa.int64())}) for table in tables)
    for output in operator.run(given, CONTEXT, items):
        if isinstance(output, KeptList):
            kept = output.items
        else:
            assert output.schema == pa.schema(list(operator.output_fields))
            values += output["v"].to_pylist()
    return values, kept


def failure(operator: MapOperator, *tables: list[int]) -> str:
    with pytest.raises(InvalidJobError) as caught:
        run(operator, *tables)
    return str(caught.value)


def test_methods_are_called_in_their_order_and_the_list_goes_from_epoch_to_epoch() -> None:
    told: list[Any] = []
    operator = operator_of(Told, told=told)
    values, kept = run(operator, [1, 2], [], [3])
    assert values == [1, 2, 3]
    expected: list[Any] = [("open", 0, 1, 0), ("restore", []), ("map_record", 1), ("map_record", 2), ("map_record", 3)]
    assert told == [*expected, ("snapshot",), ("close",)]
    told.clear()
    assert run(operator, items=kept) == ([], kept), "an epoch without rows keeps the list"
    assert told == [("open", 0, 1, 0), ("restore", [1, 2, 3]), ("snapshot",), ("close",)]


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4))
def test_a_method_may_give_any_number_of_rows(tables: list[list[int]]) -> None:
    assert run(operator_of(Repeated), *tables)[0] == [v for table in tables for v in table for _ in range(v)]
    small = [[v % 3 for v in table] for table in tables]
    assert run(operator_of(Lists), *small)[0] == [v for table in small for v in table for _ in range(v)]


def test_more_records_than_are_held_at_once_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.operators.map.operator.SLICE_ROWS", 3)
    assert run(operator_of(Repeated), [1] * 10, [2, 1, 1, 1])[0] == [1] * 10 + [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    "result",
    [
        lambda rows: rows,
        lambda rows: rows.to_batches()[0],
        lambda rows: rows.to_pandas(),
        lambda rows: pd.DataFrame({"v": rows["v"].to_pylist()}),
        lambda rows: rows.to_pylist(),
        lambda rows: iter([rows.slice(0, 1), rows.slice(1)]),
    ],
)
def test_map_rows_may_give_tables_frames_or_rows(result: Callable[[pa.Table], Any]) -> None:
    assert run(operator_of(Whole, result=result), [4, 5, 6])[0] == [4, 5, 6]


def test_map_rows_may_give_nothing_and_may_call_map_record() -> None:
    assert run(operator_of(Whole, result=lambda rows: None), [4, 5])[0] == []
    assert run(operator_of(Filtered), [0, 1, 2, 3, 4])[0] == [20, 40]


@pytest.mark.parametrize("method", ["open", "restore", "snapshot", "close"])
def test_an_error_names_operator_method_and_line(method: str) -> None:
    message = failure(operator_of(Failing, method=method), [1, 2])
    assert message.startswith(
        "the map function raised ValueError: unlucky. Nothing of this epoch is committed. Correct the function and "
        f"start again. operator=map-1, method={method}, at="
    )
    assert "functions.py:" in message
    assert message.endswith(" in _check")


def test_an_error_in_a_record_names_the_record() -> None:
    message = failure(operator_of(Failing, method="map_record"), [1, 2, 3, 4])
    assert 'operator=map-1, method=map_record, record={"v": 3}, at=' in message


def test_a_row_that_does_not_fit_names_the_field_and_the_record_that_it_comes_from() -> None:
    message = failure(operator_of(Twisted), [1, 2, 3, 4])
    assert message.startswith(
        "what the map function emitted does not match the step's output: the field `v` is declared"
    )
    assert message.endswith('operator=map-1, method=map_record, record={"v": 3}')


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda rows: rows.rename_columns(["w"]), "the table has the columns w; the output has v"),
        (lambda rows: pa.table({"v": ["x"] * rows.num_rows}), "the field `v` is declared int64, and string does not"),
        (lambda rows: 5, "a method must return a row, rows, or nothing, and it returned a int: 5"),
        (lambda rows: [{"w": 1}], "the row lacks the field `v`"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(result: Callable[[pa.Table], Any], reason: str) -> None:
    message = failure(operator_of(Whole, result=result), [1])
    assert message.startswith(f"what the map function emitted does not match the step's output: {reason}")
    assert message.endswith("operator=map-1, method=map_rows")


def test_an_item_that_cannot_be_kept_is_refused() -> None:
    class Keeps(Told):
        def snapshot(self) -> list[Any]:
            return [{1, 2}]

    message = failure(operator_of(Keeps, told=[]), [1])
    assert message.startswith("the list of the map function cannot be stored: item 0 of snapshot cannot be kept: ")


def test_what_is_no_fault_of_the_function_passes_through() -> None:
    class Store(MapFunction):
        def map_record(self, record: Record) -> Record:
            msg = "the store does not answer"
            raise RetryableError(msg)

    with pytest.raises(RetryableError, match="the store does not answer"):
        run(operator_of(Store), [1])


def test_a_function_is_closed_after_a_failure_whose_error_is_the_one_that_is_told() -> None:
    closed: list[str] = []

    class Closes(Failing):
        def close(self) -> None:
            closed.append("closed")
            msg = "too late"
            raise ValueError(msg)

    assert "unlucky" in failure(operator_of(Closes, method="map_record"), [3])
    assert closed == ["closed"]


def test_a_class_that_cannot_work_is_refused_before_it_sees_a_row() -> None:
    class Nothing(MapFunction):
        pass

    class OnlyRestore(Repeated):
        def restore(self, items: list[Any]) -> None:
            """Takes what nobody keeps."""

    class OnlySnapshot(Repeated):
        def snapshot(self) -> list[Any]:
            return [1]

    class Misspelt(Told):
        redistribution = "spilt"  # type: ignore[assignment]

    class Listed(Told):
        redistribution = ["split"]  # type: ignore[assignment]  # noqa: RUF012

    class Pointless(Repeated):
        redistribution = "union"

    class BadItems(Told):
        item_type = object

    reasons: dict[type[MapFunction], str] = {
        Nothing: "the map function has neither map_rows nor map_record. Write one of them. map=",
        OnlyRestore: "the map function has a method restore and no method snapshot, so what one subtask keeps would",
        OnlySnapshot: "the map function has a method snapshot and no method restore, so what one subtask keeps would",
        Misspelt: "the map function declares an unknown redistribution. Set it to 'split', 'union' or None.",
        Listed: "the map function declares an unknown redistribution. Set it to 'split', 'union' or None.",
        Pointless: "the map function says how its list is redistributed, and keeps none. Write snapshot and",
        BadItems: "a state cannot hold this type",
    }
    for function, reason in reasons.items():
        args: dict[str, Any] = {"told": []} if issubclass(function, Told) else {}
        with pytest.raises(InvalidJobError) as caught:
            operator_of(function, **args).declaration()
        assert str(caught.value).startswith(reason), function


def test_a_declaration_is_what_the_class_says() -> None:
    declared = operator_of(Told, told=[]).declaration()
    assert (declared.keeps_list, declared.redistribution) == (True, "split")
    declared = operator_of(Repeated).declaration()
    assert (declared.keeps_list, declared.redistribution) == (False, None)


def test_items_of_another_type_are_found_before_an_epoch_runs() -> None:
    class Texts(Told):
        item_type = str

    _, kept = run(operator_of(Told, told=[]), [1, 2])
    operator_of(Told, told=[]).check_items([kept])
    with pytest.raises(InvalidJobError, match="was stored with items of another type"):
        operator_of(Texts, told=[]).check_items([kept])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests.operators.map.functions", "this names no map function. Write `package.module:Class`. map="),
        ("no_such_module:Upper", "the module of a map function cannot be imported: ModuleNotFoundError"),
        (
            "mixedmode.process:KeyedProcessFunction",
            "this is no map function. Name a class that derives from mixedmode.process.MapFunction. map=",
        ),
        ("tests.operators.map.functions:Whole", "the arguments do not fit the map function: missing a required"),
        ("tests.operators.map.functions:Failing", "the map function cannot be made: ValueError: unlucky. Correct its"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_with_the_reason(text: str, message: str) -> None:
    args = {"method": "__init__"} if text.endswith("Failing") else {}
    with pytest.raises(InvalidJobError) as caught:
        MAP_FUNCTION.named(text, args).create()
    assert str(caught.value).startswith(message)
