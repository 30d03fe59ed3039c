"""Functions of Python in the SQL of a job: registered by the analysis, called in tasks, in every mode."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_rows, run, write_json

MODULE = """
import {helper}

calls = 0

def clean(value: str | None) -> str | None:
    return None if value is None else {helper}.trimmed(value)

def doubled(value: int) -> int:
    global calls
    calls += 1
    return 2 * value

def reciprocal(value: int) -> float:
    return 1 / value

def wrong(value: int) -> int:
    return str(value)

def untyped(value):
    return value

class Thing:
    pass

class Called:
    def __call__(self, value):
        return value

called = Called()
"""
DECORATED = """
import {helper}
import pandas
from pyspark.sql.functions import pandas_udf, udf

@udf("array<string>")
def letters(value):
    return list({helper}.trimmed(value))

@pandas_udf("long")
def tripled(values: pandas.Series) -> pandas.Series:
    return 3 * values

@pandas_udf("long")
def total(values: pandas.Series) -> int:
    return values.sum()

@udf("long")
def wrong(value):
    return str(value)

@pandas_udf("long")
def broken(values: pandas.Series) -> pandas.Series:
    return values["no such label"]

def shout(value: str) -> str:
    return {helper}.trimmed(value).upper()

chance = udf(lambda: 1, "int").asNondeterministic()
"""
RECORDS = [{"k": " a", "v": 1}, {"k": "b ", "v": 2}, {"k": "a", "v": 3}]
MORE = [{"k": "b", "v": 5}, {"k": "  c", "v": 0}]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two modules, and a helper that both of them import."""
    monkeypatch.chdir(tmp_path)
    helper = f"helper_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{helper}.py").write_text("def trimmed(value):\n    return value.strip()\n")
    (tmp_path / "plain_functions.py").write_text(MODULE.replace("{helper}", helper))
    (tmp_path / "decorated_functions.py").write_text(DECORATED.replace("{helper}", helper))
    return tmp_path


def job(home: Path, functions: dict[str, str], **settings: Any) -> Job:
    source = Source.json(home / "in", schema="k string, v long")
    return Job("calls", sources={"t": source}, functions=functions, spark=SPARK, **settings)


@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_sql_keys_and_aggregates_call_functions_of_both_kinds(home: Path, spark: SparkSession, mode: Any) -> None:
    functions = {
        "clean": "plain_functions:clean",
        "doubled": "plain_functions:doubled",
        "letters": "decorated_functions:letters",
        "tripled": "decorated_functions:tripled",
        "shout": "decorated_functions:shout",
    }
    is_batch = mode == "batch"
    write_json(home / "in", "a.json", RECORDS + MORE if is_batch else RECORDS)
    checkpoints = None if is_batch else home / "checkpoints"
    steps = (
        job(home, functions, mode=mode, checkpoint_dir=checkpoints)
        .sql("SELECT clean(k) AS k, tripled(v) AS v, size(letters(k)) AS n FROM t WHERE doubled(v) >= 0")
        .key_by("coalesce(shout(k), '?') AS key")
        .aggregate(v="sum(doubled(v))", n="max(n)")
        .sql("SELECT key, v, n, letters(key)[0] AS first FROM previous")
    )
    feed = [] if is_batch else [lambda: write_json(home / "in", "b.json", MORE)]
    run(steps.write(Sink.parquet(home / "out")), spark, feed=feed)
    sums, sizes = Counter[str](), dict[str, int]()
    for record in RECORDS + MORE:
        key = str(record["k"]).strip().upper()
        sums[key] += 6 * int(str(record["v"]))
        sizes[key] = 1
    found = {row["key"]: (row["v"], row["n"], row["first"]) for row in output_rows(home / "out")}
    assert found == {key: (sums[key], sizes[key], key) for key in sums}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "plain_functions:reciprocal",
            r"raised ZeroDivisionError: division by zero\..*, at=\S+\.py:\d+ in reciprocal, arguments=\(0,\)",
        ),
        ("plain_functions:wrong", r"returned what is not of its type: '\d' \(str\) is no bigint\."),
        ("decorated_functions:wrong", r"returned what is not of its type: '\d' \(str\) is no bigint\."),
        ("decorated_functions:broken", r"raised KeyError: .*function=decorated_functions:broken, at="),
    ],
)
def test_a_function_that_raises_or_returns_another_type_stops_the_job(
    home: Path, spark: SparkSession, function: str, message: str
) -> None:
    write_json(home / "in", "a.json", MORE)
    steps = job(home, {"called": function}, mode="batch").sql("SELECT called(v) AS v FROM t")
    with pytest.raises(InvalidJobError, match=f"^a function that SQL calls {message}"):
        run(steps.write(Sink.parquet(home / "out")), spark)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("f", "plain_functions:untyped", r"functions.*: the type of the function's result is not known\. Annotate it"),
        (
            "f",
            "plain_functions:called",
            r"the type of the function's result is not known.*function=plain_functions:called",
        ),
        ("f", "plain_functions:Thing", r"this is no function\. .*found=<class"),
        ("f", "plain_functions:nothing", r"the module has no function for SQL of this name\. .*, defined=.*clean"),
        ("f", "no_such_functions:f", r"the module of a function for SQL cannot be imported: ModuleNotFoundError"),
        ("f", "decorated_functions:total", r"this function aggregates or makes tables"),
        ("upper", "plain_functions:clean", r"Spark has a function of this name"),
    ],
)
def test_a_function_that_sql_cannot_call_is_refused(
    home: Path, spark: SparkSession, name: str, function: str, message: str
) -> None:
    steps = job(home, {name: function}, mode="batch").sql("SELECT k FROM t").write(Sink.parquet(home / "out"))
    write_json(home / "in", "a.json", MORE)
    with pytest.raises(InvalidJobError, match=message):
        run(steps, spark)


def test_a_function_that_differs_from_call_to_call_is_refused_where_sql_calls_it(
    home: Path, spark: SparkSession
) -> None:
    steps = job(home, {"chance": "decorated_functions:chance"}, mode="batch").sql("SELECT chance() AS n FROM t")
    write_json(home / "in", "a.json", MORE)
    with pytest.raises(InvalidJobError, match="this has another value each time it is computed"):
        run(steps.write(Sink.parquet(home / "out")), spark)
