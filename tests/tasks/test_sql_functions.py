"""Results and errors of functions that SQL calls, without Spark."""

import datetime as dt
import enum
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.tasks.sql_functions import ImportedFunction, MisfitError, SqlFunction, fitted

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
#: {value: the types that it is of}, each other type refuses it
OF_TYPES: list[tuple[Any, tuple[DataType, ...]]] = [
    (True, (BooleanType(),)),
    (1, (ByteType(), ShortType(), IntegerType(), LongType(), DoubleType(), FloatType())),
    (1.5, (DoubleType(), FloatType())),
    ("1", (StringType(),)),
    (b"1", (BinaryType(),)),
    (bytearray(b"1"), (BinaryType(),)),
    (Decimal(1), (DecimalType(10, 2),)),
    (MOMENT, (TimestampType(), TimestampNTZType())),
    (MOMENT.date(), (DateType(),)),
    ([1], (ArrayType(LongType()), ArrayType(DoubleType()))),
    ((1,), (ArrayType(LongType()), ArrayType(DoubleType()))),
    ({"a": 1}, (MapType(StringType(), LongType()),)),
]
TYPES: list[DataType] = sorted({of for _, types in OF_TYPES for of in types}, key=repr)


@pytest.mark.parametrize("data_type", TYPES, ids=lambda of: of.simpleString())
@pytest.mark.parametrize(("value", "types"), OF_TYPES, ids=lambda of: repr(of)[:20])
def test_a_result_is_of_its_type_or_refused(value: Any, types: tuple[DataType, ...], data_type: DataType) -> None:
    if data_type in types:
        found = fitted(value, data_type)
        assert found == (list(value) if isinstance(value, tuple) else value)
    else:
        with pytest.raises(MisfitError, match=r"\) is no "):
            fitted(value, data_type)


@pytest.mark.parametrize("data_type", TYPES, ids=lambda of: of.simpleString())
def test_null_is_of_every_type(data_type: DataType) -> None:
    assert fitted(None, data_type) is None


@given(st.integers(-(1 << 70), 1 << 70))
def test_whole_numbers_have_the_range_of_their_type(value: int) -> None:
    for data_type, bits in ((ByteType(), 8), (ShortType(), 16), (IntegerType(), 32), (LongType(), 64)):
        if -(2 ** (bits - 1)) <= value <= 2 ** (bits - 1) - 1:
            assert fitted(value, data_type) == value
        else:
            with pytest.raises(MisfitError):
                fitted(value, data_type)


@pytest.mark.parametrize("value", [1 << 53, -(1 << 53)])
def test_a_whole_number_is_a_double_as_long_as_a_double_holds_it(value: int) -> None:
    assert isinstance(fitted(value, DoubleType()), float)
    with pytest.raises(MisfitError):
        fitted(value + (1 if value > 0 else -1), DoubleType())


def test_scalars_of_numpy_count_as_the_values_that_they_hold() -> None:
    assert fitted(np.int64(3), LongType()) == 3
    assert fitted(np.bool_(True), BooleanType()) is True
    assert math.isnan(fitted(np.float32("nan"), DoubleType()))
    assert fitted([np.float64(0.5)], ArrayType(DoubleType())) == [0.5]
    with pytest.raises(MisfitError):
        fitted(np.float64(3), LongType())


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.StrEnum):
    RED = "r"

    def __str__(self) -> str:
        return self.name


def test_values_of_derived_classes_count_as_the_values_that_they_hold() -> None:
    for value, data_type, plain in (
        (Level.HIGH, LongType(), 3),
        (Colour.RED, StringType(), "r"),
        (Level.HIGH, DoubleType(), 3.0),
    ):
        found = fitted(value, data_type)
        assert (found, type(found)) == (plain, type(plain))


def test_values_inside_of_arrays_and_maps_are_checked() -> None:
    for value, data_type in (
        ([1, "2"], ArrayType(LongType())),
        ([[1], [True]], ArrayType(ArrayType(LongType()))),
        ({"a": "1"}, MapType(StringType(), LongType())),
        ({1: 1}, MapType(StringType(), LongType())),
    ):
        with pytest.raises(MisfitError):
            fitted(value, data_type)
    assert fitted([1, None], ArrayType(LongType())) == [1, None]


MODULE = """
from mixedmode.errors import RetryableError

def inverse(value):
    return 1 / value

def text(value):
    return str(value)

def later(values):
    for value in values:
        yield inverse(value)

def away(value):
    raise RetryableError("the store is away")
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions_that_fail.py").write_text(MODULE)
    return "functions_that_fail", str(folder)


def called(module: tuple[str, str], name: str, result_type: DataType | None) -> SqlFunction:
    return SqlFunction(ImportedFunction(module[0], name, module[1]), result_type)


def test_a_function_that_raises_is_told_with_its_line_and_arguments(module: tuple[str, str]) -> None:
    function = called(module, "inverse", DoubleType())
    assert function(4) == 0.25
    with pytest.raises(InvalidJobError) as told:
        function(0)
    message = str(told.value)
    assert message.startswith("a function that SQL calls raised ZeroDivisionError: division by zero. ")
    line = MODULE.split("\n").index("    return 1 / value") + 1
    where = Path(module[1]) / "functions_that_fail.py"
    assert message.endswith(f"function=functions_that_fail:inverse, at={where}:{line} in inverse, arguments=(0,)")


def test_calls_of_several_records_have_the_results_and_the_first_error_of_calls_one_by_one(
    module: tuple[str, str],
) -> None:
    function = called(module, "inverse", DoubleType())
    assert function.of_rows([(4,), (-2,)]) == [0.25, -0.5]
    with pytest.raises(InvalidJobError) as one:
        function(0)
    with pytest.raises(InvalidJobError) as several:
        function.of_rows([(4,), (0,), (0,), ("text",)])
    assert str(several.value) == str(one.value)
    picky = called(module, "inverse", LongType())  # 1.0 is no whole number, and comes before the error
    with pytest.raises(InvalidJobError, match=r"returned what is not of its type: 1\.0 \(float\) .*arguments=\(1,\)$"):
        picky.of_rows([(1,), (0,)])


def test_a_result_of_another_type_is_told_with_its_value(module: tuple[str, str]) -> None:
    with pytest.raises(
        InvalidJobError, match=r"returned what is not of its type: '3' \(str\) is no bigint\. .*\(3,\)$"
    ):
        called(module, "text", LongType())(3)


def test_a_function_over_an_iterator_is_told_where_it_raises(module: tuple[str, str]) -> None:
    results = called(module, "later", None)(iter([2, 0]))
    assert isinstance(results, Iterator)
    assert next(results) == 0.5
    with pytest.raises(InvalidJobError, match=r"ZeroDivisionError.*function=functions_that_fail:later, at=\S+:\d+ in "):
        next(results)


def test_an_error_of_mixedmode_stays_what_it_is(module: tuple[str, str]) -> None:
    with pytest.raises(RetryableError, match=r"^the store is away$"):
        called(module, "away", None)(1)
