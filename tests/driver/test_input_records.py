"""Each source checks its own files of an epoch; a failure on one of them names the line."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.checkpoint.source_log import LoggedFile
from mixedmode.driver.input_records import InputRecords
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from mixedmode.sources.source import Admission
from mixedmode.spark.file_lengths import FileState
from tests.harness import SPARK, manifests, output_rows, run, write_text

MALFORMED = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/b.json. SQLSTATE: KD001\n"
    "Caused by: [MALFORMED_RECORD_IN_PARSING] Malformed records are detected in record parsing: [1,a]."
)


class Plain:
    """A source without files."""

    schema = StructType()

    def batch(self) -> DataFrame:
        raise AssertionError

    def stream(self, _admission: Admission) -> DataFrame:
        raise AssertionError


class Files(Plain):
    """A source that notes what it is asked to check.

    `wrong`: what it says of any file. `changed`: which of its files has changed.
    """

    def __init__(self, wrong: str | None = None, changed: str | None = None) -> None:
        self.checked: list[tuple[str, FileState]] = []
        self._wrong = wrong
        self._changed = changed

    def changed_file(self) -> str | None:
        return self._changed

    def check_files(self, files: Mapping[str, FileState]) -> None:
        self.checked += files.items()

    def wrong_record(self, url: str) -> str | None:
        return self._wrong and f"{self._wrong} {url}"


class Both(Plain):
    """A source of two."""

    def __init__(self, *sides: Any) -> None:
        self.sides_in_log = sides


@pytest.mark.parametrize("has_clock", [False, True])
def test_each_source_checks_its_own_files_whatever_the_query_reads_before(has_clock: bool) -> None:
    one, history, live, never_read = Files(), Files(), Files(), Files()
    sources = {"never": never_read, "one": one, "two": Both(history, live), "plain": Plain()}
    records = InputRecords(SourcesRead.of(sources, ["two", "plain", "one"], has_clock=has_clock))
    # the steps read one, two, plain and two once more; then the query reads each source for its progress
    steps, progress = [2, 0, 1, 3, 0, 1], [0, 1, 3, 2]
    files = {number: [LoggedFile(f"file:///{number}", 0, 0), LoggedFile("file:///gone", 0, 0)] for number in (0, 2)}
    records.check(files, {"file:///0": (7, 1), "file:///2": (9, 1)}, [*steps, *progress, *([4] if has_clock else [])])
    assert [one.checked, history.checked, live.checked, never_read.checked] == [
        [("file:///2", (9, 1))],
        [("file:///0", (7, 1))],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (PySparkException(MALFORMED), "wrong file:///in/b.json"),
        (PySparkException("[USER_RAISED_EXCEPTION] no record. file=file:///in/b.json, record=x SQLSTATE: P0001"), None),
        (PySparkException("Encountered error while reading file file:///in/b.json. "), None),
        (ValueError(MALFORMED), None),
    ],
)
def test_a_failure_on_a_record_names_the_line_and_any_other_stays_as_it_is(
    failure: Exception, told: str | None
) -> None:
    files = {"a": Plain(), "b": Files(), "c": Files("wrong")}
    for records in (
        InputRecords(SourcesRead(files, has_clock=False)),
        InputRecords(SourcesRead({}, has_clock=False), files.values()),
    ):
        with pytest.raises(InvalidJobError if told else type(failure)) as caught, records.reading():
            raise failure
        assert str(caught.value) == told if told else caught.value is failure


def fail(error: Exception | None) -> None:
    if error is not None:
        raise error


@pytest.mark.parametrize("failure", [None, PySparkException(MALFORMED), InvalidJobError("damaged")])
def test_a_file_that_changes_while_it_is_read_is_told_whether_or_not_its_reader_failed(
    failure: Exception | None,
) -> None:
    sources = {"a": Both(Files("wrong"), Files("wrong", "file:///in/b.json was changed")), "b": Plain()}
    records = InputRecords(SourcesRead(sources, has_clock=False))
    with pytest.raises(RetryableError) as caught, records.reading():
        fail(failure)
    assert str(caught.value) == (
        "a file of a source was changed or removed while its records were read, so they could have been of two "
        "versions, and nothing was committed. Put it back if it is gone. Write a file under a name that begins with _ "
        "or a dot, and rename it when it is complete. Then start again: a job resumes. "
        "changed=file:///in/b.json was changed"
    )


@pytest.mark.spark
def test_a_live_file_is_checked_by_its_source_before_its_epoch_is_committed(spark: SparkSession, tmp_path: Any) -> None:
    """Two sources of JSON with other columns; the first line of `b` would be refused by `a`."""
    ddl = {"a": "k string, v bigint", "b": "k string, v string"}
    for name in ddl:
        write_text(tmp_path / name, "1.json", '{"k": "x", "v": 1}\n')
    sources = {name: Source.json(tmp_path / name, schema=schema) for name, schema in ddl.items()}
    checkpoints = tmp_path / "checkpoints"
    job = Job("two", sources=sources, mode="mixed", parallelism=2, checkpoint_dir=checkpoints, spark=SPARK)
    job = job.sql("SELECT k, v FROM a UNION ALL SELECT k, bigint(length(v)) AS v FROM b")
    job = job.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(tmp_path / "out"))
    text = '{"k": "x", "v": "text"}\n{"k": "x", "v": "more"} {"k": "y"}\n'
    with pytest.raises(InvalidJobError, match=r"b/2\.json, line=2, record=.*more"):
        run(job, spark, feed=[lambda: write_text(tmp_path / "b", "2.json", text)])
    assert output_rows(tmp_path / "out") == [{"k": "x", "n": 2, "s": 2}]
    assert len(manifests(checkpoints)) == 1
    write_text(tmp_path / "b", "2.json", '{"k": "x", "v": "text"}\n')
    run(job, spark)
    assert output_rows(tmp_path / "out") == [{"k": "x", "n": 3, "s": 6}]
