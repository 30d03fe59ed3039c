"""The versions that an attempt reads: one of each dimension, and none that has changed when the attempt has ended."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode import expressions
from mixedmode.errors import LeftToSparkError, RetryableError
from mixedmode.executor import dimensions as dimensions_read
from mixedmode.executor import spark as spark_executor
from mixedmode.executor.dimensions import Dimensions, VersionsRead
from mixedmode.executor.protocol import EpochResult
from mixedmode.executor.spark import SparkExecutor
from mixedmode.expressions import Column, Query
from mixedmode.sources.versions import HasVersions, TableVersion
from mixedmode.tasks.progress import Progress

RESULT = EpochResult(Progress(), 0, 0, 0, 0, 0.0, (), ())


def session_of(number: int = 0) -> SparkSession:
    return cast("SparkSession", SimpleNamespace(_jsparkSession=number))


class Table(HasVersions):
    """A table with a version for each look at it; `changes` says of each version what has changed when it was read.

    lost: what every version has lost.
    """

    schema = StructType()

    def __init__(self, *changes: str | None, lost: str | None = None) -> None:
        self._changes = iter(changes)
        self._lost = lost
        self.before: list[str | None] = []

    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        self.before.append(None if before is None else before.name)
        change = next(self._changes, None)
        frame: Any = SimpleNamespace(sparkSession=session)
        return TableVersion(f"version {len(self.before)}", frame, lambda: change, lambda: self._lost)


def test_a_later_look_gets_the_version_before_unless_it_is_of_another_session() -> None:
    table = Table()
    dimensions = Dimensions({"c": table})
    for number in (0, 0, 1):
        dimensions.newest(session_of(number))
    assert table.before == [None, "version 1", None]


class Attempts:
    """In the place of the attempts at an epoch: what each of them raises, None for a result."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.versions: list[dict[str, str]] = []

    def __call__(self, _session: Any, _task: Any, read: Any) -> "Attempts":
        self.versions.append(read.names)
        return self

    def result(self, _rows: Any) -> EpochResult:
        error = self._errors[len(self.versions) - 1] if len(self.versions) <= len(self._errors) else None
        if error is not None:
            raise error
        return RESULT


def run(
    monkeypatch: pytest.MonkeyPatch, changes: Sequence[str | None], *errors: Exception | None, lost: str | None = None
) -> Any:
    attempts, task = Attempts(*errors), cast("Any", None)
    monkeypatch.setattr(spark_executor, "EpochRun", attempts)
    result = SparkExecutor(session_of(), Dimensions({"c": Table(*changes, lost=lost)})).run_epoch(task, None)
    return result.dimensions, attempts.versions


def test_the_result_names_the_version_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [None]) == ({"c": "version 1"}, [{"c": "version 1"}])


def test_an_attempt_whose_files_have_changed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    found, versions = run(monkeypatch, ["f was changed", None])
    assert (found, len(versions)) == ({"c": "version 2"}, 2)
    # of a broadcast, PySpark passes Java's error on as it is
    for failure in (PySparkException("no file f"), Py4JError("no file f")):
        found, versions = run(monkeypatch, ["f is gone", None], failure)
        assert (found, len(versions)) == ({"c": "version 2"}, 2)


def test_a_failed_attempt_is_repeated_with_the_newest_version_if_its_own_was_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, versions = run(monkeypatch, [], PySparkException("no file f"), lost="f is gone")
    assert (found, versions) == ({"c": "version 2"}, [{"c": "version 1"}, {"c": "version 2"}])
    assert len(run(monkeypatch, [], lost="f is gone")[1]) == 1, "an attempt that has read all of it counts"


def test_a_table_that_is_gone_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> TableVersion:
        msg = "[PATH_NOT_FOUND] Path does not exist: /customers. SQLSTATE: 42K03"
        raise AnalysisException(msg)

    monkeypatch.setattr(Table, "newest", gone)
    with pytest.raises(RetryableError) as caught:
        run(monkeypatch, [])
    assert str(caught.value) == (
        "a dimension cannot be read any more, and nothing of this epoch was committed. Put its files or its table "
        "back, and start again: the job resumes. dimension=c, cause=Path does not exist: /customers."
    )


def test_a_failure_is_not_repeated_if_no_file_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PySparkException, match="wrong"):
        run(monkeypatch, [], PySparkException("wrong"))


@pytest.mark.parametrize("errors", [(), (PySparkException("gone"),) * 4])
def test_files_that_change_each_time_are_an_error_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[Exception, ...]
) -> None:
    expected = (
        "files of a dimension changed or were removed each time that the epoch read them, so its rows could have been "
        "joined with two versions. Nothing of the epoch was committed. Replace the files less often, or all at once: "
        "put them into a Delta Lake or Iceberg table, whose versions can be read while it changes; there, remove old "
        "versions only when they are older than an epoch takes. "
        "attempts=4, changed=c: f was changed"
    )
    with pytest.raises(RetryableError) as caught:
        run(monkeypatch, ["f was changed"] * 4, *errors)
    assert str(caught.value) == expected


class ReadOnce(SimpleNamespace):
    """A version of a table whose frame can be had once."""

    name = "version 1"

    def __init__(self, frame: DataFrame) -> None:
        self._frames = [frame]

    @property
    def frame(self) -> DataFrame:
        return self._frames.pop()


@pytest.mark.parametrize(
    ("limit", "value"), [("READ_BYTES_MAX", 30_000), ("BYTES_MAX", 30_000), ("ROWS_MAX", 999), ("", 0)]
)
def test_a_version_that_tasks_cannot_join_is_read_once_and_not_whole(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    frame = spark.range(1000).selectExpr("id", "repeat('x', 100) AS label")
    if limit:
        monkeypatch.setattr(dimensions_read, limit, value)
    columns = (Column("id", pa.int64()), Column("label", pa.string()))
    query = Query(columns, (), (("key 0", 0), ("column 0", 1)))
    joins = Query((), (), (), (expressions.Table("c", query, 1),))
    read = VersionsRead({"c": cast("TableVersion", ReadOnce(frame))})
    for _ in range(2):
        if limit:
            with pytest.raises(LeftToSparkError, match=r"^the dimension c is larger than what tasks get"):
                read.with_rows(joins)
        else:
            assert read.with_rows(joins).tables[0].rows is not None
