"""Errors of a source's class: named with class, method and line, whichever process they are raised in."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.harness import run

pytestmark = pytest.mark.spark

#: a source with two numbers; the tests put other methods over these
NUMBERS = """\
import pyarrow as pa

from mixedmode.connectors import CustomSource
from mixedmode.errors import InvalidJobError


class Numbers(CustomSource):
    def __init__(self, secret=""):
        self.secret = secret

    def schema(self):
        return "n long"

    def latest(self):
        return 2

    def splits(self, start, end):
        return list(range(start or 0, end))

    def read(self, split):
        yield pa.record_batch({"n": [split]})


class Broken(Numbers):
"""


def failure(spark: SparkSession, folder: Path, module: str, method: str, **args: str) -> MixedmodeError:
    """Return the error of a run over a source in which one method is replaced."""
    (folder / f"{module}.py").write_text(NUMBERS + method, encoding="utf-8")
    source = Source.custom(f"{module}:Broken", folder=folder, args=args)
    job = Job("broken", sources={"numbers": source}, checkpoint_dir=folder / "checkpoints", mode="mixed")
    with pytest.raises(MixedmodeError) as caught:
        run(job.key_by("n").aggregate(count="count(*)").write(Sink.parquet(folder / "out")), spark)
    assert "Traceback" not in str(caught.value)
    return caught.value


def test_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    found = failure(spark, tmp_path, "broken_schema", "    def schema(self):\n        return 1 / 0\n")
    assert type(found) is RetryableError
    assert str(found) == (
        "sources.numbers: the custom source raised ZeroDivisionError: division by zero in `schema`. Nothing of this "
        "epoch was committed. Correct the class, or what it reaches, and start the job again: it resumes. "
        f"class=broken_schema:Broken, method=schema, at={tmp_path}/broken_schema.py:26 in schema"
    )
    assert str(failure(spark, tmp_path, "no_text", "    def schema(self):\n        return ['n']\n")) == (
        "sources.numbers: a method of the custom source must return Spark DDL as text, and returned something else. "
        "Correct it. class=no_text:Broken, method=schema, found=['n']"
    )


def test_in_the_process_that_looks_for_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    method = "    def latest(self):\n        raise InvalidJobError('the table\\n has shrunk.')\n"
    found = failure(spark, tmp_path, "broken_latest", method)
    assert type(found) is InvalidJobError
    assert str(found).startswith("the table has shrunk. class=broken_latest:Broken, method=latest, log=")


def test_in_a_task(spark: SparkSession, tmp_path: Path) -> None:
    method = "    def read(self, split):\n        yield pa.record_batch({'n': ['x']})\n"
    found = failure(spark, tmp_path, "broken_read", method)
    assert type(found) is InvalidJobError
    assert str(found).startswith(
        "a batch has a column whose values are not of the type that `schema` says. Correct one of them. column=n, "
        "type=string, wanted=int64, cause=Failed to parse string: 'x' as a scalar of type int64, "
        "class=broken_read:Broken, method=read, log="
    )
