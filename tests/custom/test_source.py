"""A custom source, without Spark: offsets, splits, and batches that fit the schema."""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import CharType, LongType, StructField, StructType, YearMonthIntervalType

from mixedmode.connectors import CustomSource
from mixedmode.connectors.custom.instances import CUSTOM_SOURCE
from mixedmode.connectors.custom.source import _columns
from mixedmode.connectors.custom.stream import Calls, checked_offset
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.operators.classes import NamedClass
from mixedmode.spark.custom_errors import custom_problem

DDL = "id long, at timestamp, city string"
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("city", pa.string())])
AT = datetime(2024, 6, 1, 8, tzinfo=UTC)


def test_the_module_that_spark_imports_for_each_query_imports_little() -> None:
    """With pandas and the settings of jobs, each query would wait two seconds longer."""
    program = (
        "import sys, mixedmode.connectors.custom.stream\n"
        "print(sorted({'pandas', 'pydantic', 'rocksdict', 'obstore'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Given(CustomSource):
    """Gives what the test has put here."""

    splits_given: Any = ()
    batches_given: Any = ()
    latest_given: Any = 1

    def schema(self) -> str:
        return DDL

    def latest(self) -> Any:
        return self.latest_given

    def splits(self, start: Any, end: Any) -> Any:
        return self.splits_given

    def read(self, split: Any) -> Iterator[Any]:
        yield from self.batches_given


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr(Given, "splits_given", [0])
    monkeypatch.setattr(Given, "batches_given", [])
    return Calls(NamedClass(CUSTOM_SOURCE, __name__, "Given"), SCHEMA)


def read(calls: Calls) -> list[dict[str, Any]]:
    partitions = calls.splits(None, 1)
    return [row for partition in partitions for batch in calls.read(partition) for row in batch.to_pylist()]


def test_batches_are_put_in_the_order_and_the_types_of_the_schema(calls: Calls) -> None:
    Given.splits_given = [0, ("any", "value"), {"x": AT}]
    columns = {"city": ["Rome", None], "id": pa.array([1, None], pa.int16()), "at": ["2024-06-01T08:00:00Z", None]}
    Given.batches_given = [pa.record_batch(columns)]
    expected = [{"id": 1, "at": AT, "city": "Rome"}, {"id": None, "at": None, "city": None}]
    assert read(calls) == expected * 3
    batches = [batch for partition in calls.splits(None, 1) for batch in calls.read(partition)]
    assert [str(field.type) for field in batches[0].schema] == ["int64", "timestamp[us, tz=UTC]", "string"]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            pa.record_batch({"id": [1], "city": ["Rome"]}),
            (
                "a batch has other columns than `schema` says. Give exactly those, by name. columns=id, city, "
                "schema=id, at, city, class=CLASS, method=read"
            ),
        ),
        (
            pa.record_batch({"id": [2**40 + 0.5], "at": [AT], "city": ["Rome"]}),
            (
                "a batch has a column whose values are not of the type that `schema` says. Correct one of them. "
                "column=id, type=double, wanted=int64, cause=Float value"
            ),
        ),
        (
            [{"id": 1}],
            (
                "a method of the custom source must return batches of pyarrow.RecordBatch, and returned something "
                "else. Correct it. class=CLASS, method=read, found=[{'id': 1}]"
            ),
        ),
    ],
)
def test_batches_that_do_not_fit_are_told(calls: Calls, batch: Any, message: str) -> None:
    Given.batches_given = [batch]
    with pytest.raises(InvalidJobError) as caught:
        read(calls)
    assert str(caught.value).startswith(message.replace("CLASS", f"{__name__}:Given"))


def test_splits_are_a_list_of_what_can_be_pickled(calls: Calls) -> None:
    Given.splits_given = "ab"
    with pytest.raises(InvalidJobError, match=r"must return a list of splits, .* method=splits, found='ab'"):
        read(calls)
    Given.splits_given = [lambda: 0]
    with pytest.raises(RetryableError, match="in `splits`"):
        read(calls)


def test_without_anything_there_is_nothing_to_split(calls: Calls) -> None:
    assert calls.splits(None, None) == []


@pytest.mark.parametrize(
    ("before", "now"), [(17, None), ({"north": 3}, None), ("2024-06", None), (17, 16), (1.5, 1), (0, -1)]
)
def test_an_offset_that_went_back_is_told_and_not_read(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, before: Any, now: Any
) -> None:
    """After None, the whole source would be read again; after a smaller number, what is up to the greater one."""
    message = rf"`latest` of the custom source went back.* method=latest, before={re.escape(str(before))}, found={now}"
    monkeypatch.setattr(Given, "latest_given", before)
    assert calls.latest() == before
    monkeypatch.setattr(Given, "latest_given", now)
    with pytest.raises(InvalidJobError, match=message):
        calls.latest()
    restarted = Calls(NamedClass(CUSTOM_SOURCE, __name__, "Given"), SCHEMA)
    assert restarted.latest() == now, "a new process does not know the offset before"
    with pytest.raises(InvalidJobError, match=message):
        restarted.splits(before, now)


@pytest.mark.parametrize(
    ("before", "now"), [(None, None), (None, 1), (17, 17), (17, 18), ("9", "10"), ({"a": 2}, {"a": 1}), (True, 2)]
)
def test_other_offsets_are_the_sources_own_affair(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, before: Any, now: Any
) -> None:
    for offset in (before, now):
        monkeypatch.setattr(Given, "latest_given", offset)
        assert calls.latest() == offset
    assert len(calls.splits(before, now)) == (0 if now is None else 1)


@pytest.mark.parametrize("offset", [None, 17, "2024-06", {"north": [1, 2], "south": {"a": None}}, 1.5, True])
def test_an_offset_is_anything_that_json_gives_back(offset: Any) -> None:
    assert checked_offset(NamedClass(CUSTOM_SOURCE, "m", "C"), offset) == offset


@pytest.mark.parametrize("offset", [{1: 2}, (1, 2), AT, float("nan"), {"a": b"x"}])
def test_an_offset_that_comes_back_as_another_is_refused(offset: Any) -> None:
    with pytest.raises(InvalidJobError, match=r"of the custom source must return what .* class=m:C, method=latest"):
        checked_offset(NamedClass(CUSTOM_SOURCE, "m", "C"), offset)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            StructType([StructField("v", CharType(3))]),
            r"do not have\. Write another one, .* cause=CharType\(3\) is not",
        ),
        (StructType([StructField("v", YearMonthIntervalType())]), "or a number of months.* cause=YearMonthInterval"),
        (StructType([StructField("v", LongType(), nullable=False)]), "Leave NOT NULL out.* method=schema, column=v"),
    ],
)
def test_columns_that_spark_takes_from_no_batch_are_refused_before_anything_runs(
    schema: StructType, message: str
) -> None:
    with pytest.raises(InvalidJobError, match=rf"^sources\.s: `schema` of the custom source .*{message}"):
        _columns(schema, NamedClass(CUSTOM_SOURCE, "m", "C"), "sources.s")


def test_equal_offsets_are_one_text() -> None:
    named = NamedClass(CUSTOM_SOURCE, "m", "C")
    assert str(checked_offset(named, {"b": 1, "a": 2})) == str(checked_offset(named, {"a": 2, "b": 1}))


def test_an_error_of_a_class_is_found_in_the_text_that_spark_makes_of_it() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n"
        "mixedmode.errors.RetryableError: not of a class\n"
        "mixedmode.errors.InvalidJobError: the table shrank. class=readings:Readings, method=latest\n\tat org.apache"
    )
    found = custom_problem(text)
    assert type(found) is InvalidJobError
    assert str(found) == "the table shrank. class=readings:Readings, method=latest"
    assert custom_problem("mixedmode.errors.RetryableError: the disk is full. path=x") is None


def test_the_document_names_a_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("from mixedmode.connectors import CustomSource\nclass C: pass\n")
    with pytest.raises(InvalidJobError, match=r"this is no custom source\. Name a class that derives from mixedmode\."):
        CUSTOM_SOURCE.named("elsewhere:C", {}, str(tmp_path)).load()


def test_the_process_that_looks_for_new_data_imports_no_settings() -> None:
    code = (
        "import sys, mixedmode.connectors.custom.stream; print({'pydantic', 'mixedmode.config'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
