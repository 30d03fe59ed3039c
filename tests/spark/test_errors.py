"""Spark's errors about its own log are of our kinds; the texts are Spark's (4.3), cut where it prints the query."""

import atexit
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from mixedmode.spark import socket_folder as module
from mixedmode.spark.errors import errors_explained, explained
from mixedmode.system_errors import system_words

QUERY = "\n=== Streaming Query ===\nIdentifier: [id = 03865627, runId = e56be0ff]\nCurrent Available Offsets: {}"


def told(cause: str) -> MixedmodeError:
    text = f"[STREAM_FAILED] Query [id = 03865627, runId = e56be0ff] terminated with exception: {cause} SQLSTATE: XXKST"
    return explained(PySparkException(text + QUERY), log_file="/c/logs/spark.log")


@pytest.mark.parametrize(
    "cause",
    [
        "batch 10 doesn't exist",
        "file:/c/spark/sources/0/10 doesn't exist (latestId: 11, compactInterval: 10)",
        "Unexpected character ('|' (code 124)): was expecting comma to separate Object entries\n at [Source: REDACTED",
        "Unexpected end-of-input in field name\n at [Source: REDACTED; line: 1, column: 9]",
        "Incomplete log file in the offset commit log",
    ],
)
def test_a_log_of_spark_that_it_cannot_read_is_damage_and_one_line(cause: str) -> None:
    error = told(cause)
    assert isinstance(error, CorruptStateError)
    assert str(error).startswith(
        "Spark cannot read its own log, a part of the checkpoint folder (spark/): an entry is damaged or gone. Nothing "
        "was committed. Start the job again with execution.checkpointing.verify: checksums (which is the default): it "
        "names the entry, and mends it or goes back to the newest checkpoint that is whole. cause="
    )
    assert "\n" not in str(error)
    assert cause.partition("\n")[0] in str(error)


def test_a_record_that_does_not_parse_is_still_the_inputs_fault() -> None:
    error = told(
        "Malformed records are detected in record parsing: [null]\n at [Source: x\n MALFORMED_RECORD_IN_PARSING"
    )
    assert isinstance(error, InvalidJobError)


def test_a_line_of_csv_that_is_too_wide_for_spark_is_no_damaged_file() -> None:
    error = told(
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.csv.  SQLSTATE: KD001\n"
        f"Caused by: [MALFORMED_CSV_RECORD] Malformed CSV record: {'1,' * 30_000} SQLSTATE: KD000"
    )
    assert isinstance(error, InvalidJobError)
    assert str(error) == (
        "a line of CSV has more values than Spark's reader takes, and nothing was committed. Correct the file; or set "
        "the option `maxColumns` of the source, which is 20480 if not set, to more: then the line is a wrong record as "
        f"others are, or a dead letter. file=file:///in/a.csv, record={'1,' * 100}, log=/c/logs/spark.log"
    )


def test_a_file_with_two_columns_of_one_name_is_no_damaged_file() -> None:
    error = told(
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.parquet.  SQLSTATE: KD001\n"
        'Caused by: Found duplicate field(s) "k": [k, K] in case-insensitive mode. SQLSTATE: 42K0G'
    )
    assert isinstance(error, InvalidJobError)
    cause = 'cause=Found duplicate field(s) "k": [k, K] in case-insensitive mode'
    assert f"file=file:///in/a.parquet, {cause}" in str(error)
    assert "damaged" not in str(error)


READING = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a%20b.json.gz.  SQLSTATE: KD001\n"


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.EOFException: Unexpected end of input stream",
        "java.util.zip.ZipException: invalid stored block lengths",
        "java.io.IOException: incorrect header check",
        "java.io.IOException: not a gzip file",
        "org.apache.parquet.io.ParquetDecodingException: could not read page",
    ],
)
def test_a_damaged_file_of_a_source_is_named_and_is_for_a_person_to_replace(cause: str) -> None:
    error = told(f"Job aborted.\n{READING}\tat a.b(c:1)\nCaused by: {cause}\n\tat d.e(f:2)\n")
    assert isinstance(error, InvalidJobError)
    assert "a file of a source cannot be read: it is damaged, cut short" in str(error)
    assert "file=file:///in/a%20b.json.gz, cause=" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("java.io.FileNotFoundException: /x (Too many open files)", RetryableError, "`ulimit -n 4096`"),
        ("[PYTHON_VERSION_MISMATCH] Python 3.12 in worker, 3.11 in driver", InvalidJobError, "another version"),
        ("ModuleNotFoundError: No module named 'mixedmode'", InvalidJobError, "without our packages"),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:/t/1.parquet. File does not",
            RetryableError,
            "a file that the epoch has to read is gone, and nothing of the epoch was committed. Restore the file",
        ),
        ("[INVALID_CONF_VALUE.X] The value 'abc' in the config \"x\" SQLSTATE: 22022", InvalidJobError, "a setting"),
    ],
)
def test_what_is_wrong_around_a_job_is_one_line(text: str, kind: type[MixedmodeError], said: str) -> None:
    error = explained(PySparkException(text), log_file="/c/logs/spark.log")
    assert type(error) is kind
    assert said in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("cause", "place"),
    [
        (
            "[FAILED_RENAME_PATH] Failed to rename file:/c/a.tmp to file:/c/spark/metadata as destination already",
            "file:/c/spark/metadata",
        ),
        ("Multiple streaming queries are concurrently using file:/c/spark/sources/0.", "file:/c/spark/sources/0"),
        ("Concurrent update to the log. Multiple streaming jobs detected for 7 SQLSTATE: XXKST", "7"),
    ],
)
def test_two_starts_at_once_are_told_as_such(cause: str, place: str) -> None:
    error = told(cause)
    assert isinstance(error, RetryableError)
    assert str(error).startswith("another process has started this job in the same checkpoint folder")
    assert str(error).endswith(f"place={place}, log=/c/logs/spark.log")


@pytest.mark.parametrize(
    ("cause", "told_of"),
    [
        (
            "[INVALID_PARTITION_VALUE] Failed to cast value 'abc' to \"INT\". SQLSTATE: 42846",
            "Failed to cast value 'abc' to \"INT\"",
        ),
        (
            "[CONFLICTING_PARTITION_COLUMN_NAMES] Found:\n\n\tlist #0: k\n\tlist #1: k, j\n\n SQLSTATE: KD009",
            "Found: list #0: k list #1: k, j",
        ),
        (
            "[CONFLICTING_DIRECTORY_STRUCTURES] Conflict.\nPaths:\n\n\tfile:/in\n\n\nIf provided. SQLSTATE: K",
            "Conflict. Paths: file:/in",
        ),
    ],
)
def test_a_folder_of_partitions_with_a_wrong_name_is_for_a_person_to_rename(cause: str, told_of: str) -> None:
    error = told(cause)
    assert isinstance(error, InvalidJobError)
    assert str(error) == (
        "the name of a folder of partitions has no value of the column's type, or no column or another one than the "
        "folders beside it, and nothing was committed. Rename or move the folder; or declare the column as string in "
        f"`schema`, and cast it in a sql step. cause={told_of}, log=/c/logs/spark.log"
    )


def test_what_a_task_says_of_a_full_disk_is_not_replaced_by_what_the_system_says() -> None:
    text = (
        "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n\nTraceback ...\n"
        "mixedmode.errors.RetryableError: no room for blocks. Set TMPDIR to another disk. path=/t, error=No space\n\tat"
    )
    found = explained(Exception(text), log_file="spark.log")
    assert type(found) is RetryableError
    assert str(found) == "no room for blocks. Set TMPDIR to another disk. path=/t, error=No space, log=spark.log"


UNREADABLE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.json.  SQLSTATE: KD001\n"


@pytest.mark.parametrize(
    ("text", "said", "places"),
    [
        ("java.io.FileNotFoundException: /a b/x.sst ({})\n\tat a.b(c:1)", "No space left on device", "path=/a b/x.sst"),
        ("E: x\nCaused by: java.io.IOException: /d/f ({})\n\tat a.b(c:1)", "Disk quota exceeded", "path=/d/f"),
        ("OSError: [Errno 28] {}: '/tmp/a b'\n", "No space left on device", "path=/tmp/a b"),
        *(
            (f"{UNREADABLE}Caused by: java.io.IOException: {{}}\n\tat a.b(c:1)", said, "path=file:///in/a.json")
            for said in ("Input/output error", "Stale file handle")
        ),
        *(
            ("java.io.IOException: {}\n\tat a.b(c:1)", said, "checkpoint_folder=/c, temporary_folder=/t")
            for said in ("No space left on device", "Input/output error", "Read-only file system", "File too large")
        ),
    ],
)
def test_a_disk_that_takes_no_more_is_told_with_its_file_or_with_the_folders_it_may_be(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str, places: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/t")
    found = explained(PySparkException(text.format(said)), log_file="/c/logs/spark.log")
    words = system_words(said)
    assert words is not None
    assert str(found).startswith(f"{words[0]}. ")
    assert str(found).endswith(f" {places}, log=/c/logs/spark.log")


def test_a_full_disk_of_the_driver_is_told_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/t")
    for file, places in ((None, "temporary_folder=/t"), ("/a", "path=/a")):
        with pytest.raises(RetryableError) as found, errors_explained("/m/spark.log"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([] if file is None else [file]))
        assert str(found.value).endswith(f"cause=No space left on device, {places}, log=/m/spark.log")


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize(
    "error", [PySparkException("An error occurred while calling z:x.collectAndServe."), FileNotFoundError("x")]
)
def test_a_folder_that_was_deleted_under_a_run_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, is_gone: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(module, "_FOLDER_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "socket_folder", cache(module.socket_folder.__wrapped__))
    folder = module.socket_folder()
    if is_gone:
        shutil.rmtree(folder.parent)
    with pytest.raises((RetryableError, FileNotFoundError)) as found, errors_explained("spark.log"):
        raise error
    told = "was deleted while it ran" in str(found.value)
    assert told == is_gone
    assert not told or str(found.value).endswith(f" folder={folder}, cause={error}, log=spark.log")
    at_exit[0]()


@pytest.mark.parametrize(
    "raised",
    ["pyarrow.lib.ArrowInvalid: Take operation overflowed", "MemoryError", "AssertionError: (1, 2)", "Stop: now"],
)
def test_the_cause_of_a_failed_task_is_pythons_exception_whatever_its_class_is(raised: str) -> None:
    error = told(
        "Job aborted.\nCaused by: org.apache.spark.api.python.PythonException: An exception was thrown from the Python "
        'worker:\nTraceback (most recent call last):\n  File "/m/tasks.py", line 1, in take\n    raise\n'
        f"{raised}\n\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n"
    )
    assert isinstance(error, RetryableError)
    assert f"cause={raised}, log=/c/logs/spark.log" in str(error)
