"""A job whose tasks join a dimension on Arrow has the answer of the same job whose sql runs in Spark."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.executor import dimensions
from mixedmode.executor.protocol import EpochTask
from mixedmode.executor.spark import SparkExecutor
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from tests.harness import SPARK, manifests, output_changes, output_rows, run, write_parquet
from tests.tasks.test_sql_on_arrow import by_spark

pytestmark = pytest.mark.spark
Mode = Literal["batch", "mixed"]

#: what is on the list, each with another kind of join
JOINS = {
    "inner": "SELECT t.n, d.label FROM t JOIN Items d ON t.k = d.id",
    "left": "SELECT t.n, d.label, d.price * 2 AS twice FROM t LEFT JOIN items d ON t.k = d.id",
    "right": "SELECT t.n, d.label FROM items d RIGHT JOIN t ON d.id = t.k WHERE d.label IS NULL OR t.n > 5",
    "swapped": "SELECT t.n, d.label FROM items d JOIN t USING (n)",
    "comma": "SELECT t.n, d.label FROM t, items d WHERE t.k + 1 = d.id AND d.price > 2 AND t.n % 2 = 0 AND t.n <> d.id",
    "semi": "SELECT t.n FROM t LEFT SEMI JOIN names ON t.text = names.name",
    "anti": "SELECT t.n FROM t LEFT ANTI JOIN names ON t.text = names.name",
    "in": "SELECT n FROM t WHERE n < 30 AND (k, text) IN (SELECT number, name FROM names WHERE number > 1)",
    "residual": "SELECT n, label FROM t LEFT JOIN (SELECT id, label, price + 3 AS p FROM items) "
    "ON k = id AND p > n AND 9 div (p - n) > 2",
    "only_if": "SELECT t.n FROM t LEFT SEMI JOIN items d ON t.k = d.id AND d.price + 3 > t.n",
    "not_if": "SELECT t.n FROM t LEFT ANTI JOIN items d ON t.k = d.id AND d.price + 3 > t.n",
    "two_keys": "SELECT t.n, d.n AS other FROM t JOIN items d ON t.text = d.label AND t.k = d.id",
    "two_tables": "SELECT t.n, d.label, p.weight FROM t JOIN items d ON t.k = d.id LEFT JOIN parts p ON p.of = d.label",
    "twice": "SELECT t.n, a.label, b.label AS other FROM t JOIN items a ON t.k = a.id JOIN items b ON a.id + 1 = b.id",
    "made": "SELECT n, l FROM t JOIN (SELECT id * 2 AS id, upper(label) AS l FROM items WHERE price < 6) d ON k = id",
    "above": "SELECT t.n, d.label FROM t JOIN items d ON t.k = d.id AND 9 div (d.price - 2) > 0 "
    "AND 9 div (t.n - 5) >= 0 AND 9 div (d.price - t.n) > -9 WHERE d.price <> 2 AND t.n <> 5 AND d.price <> t.n",
    "float": "SELECT t.n, p.of FROM t JOIN parts p ON p.weight = t.share",
    "union": "SELECT n, label FROM t JOIN items d USING (n) UNION ALL SELECT n, text FROM t WHERE k IS NULL",
}
COUNT_CHAR = "mixedmode_bench.nexmark.functions:count_char"
#: what is left to Spark, and why
LEFT = {
    "no key": ("SELECT t.n FROM t JOIN items d ON t.n < d.price", "what tasks cannot look up"),
    "not in": ("SELECT n FROM t WHERE text NOT IN (SELECT name FROM names)", "only Spark computes"),
    "function": (
        "SELECT t.n, count_char(label, 'e') AS e FROM t JOIN items d ON t.k = d.id",
        "Spark's optimiser decides which comes first",
    ),
    "exists": ("SELECT n FROM t WHERE EXISTS (SELECT 1 FROM items WHERE id = t.k)", "only Spark computes"),
}
#: more rows of items, with keys that it has
AGAIN = ((3, "again"), (4, "once more"), (5, "and again"))


def rows(epoch: int) -> pa.Table:
    numbers = range(40 * epoch, 40 * epoch + 40)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "k": pa.array([None if n % 11 == 0 else n % 8 for n in numbers], pa.int32()),
            "text": [("a", "b", None, "item 3")[n % 4] for n in numbers],
            "share": [(0.0, -0.0, float("nan"), None)[n % 4] for n in numbers],
        }
    )


def items(*extra: tuple[int | None, str]) -> pa.Table:
    known = [(id_, f"item {id_}") for id_ in range(1, 7)]
    every = [*known, (None, "none"), *extra]
    return pa.table(
        {
            "id": pa.array([id_ for id_, _ in every], pa.int64()),
            "label": [label for _, label in every],
            "price": pa.array([None if n == 3 else n + 1 for n in range(len(every))], pa.int32()),
            "n": pa.array([n + 4 for n in range(len(every))], pa.int32()),
        }
    )


def write_dimensions(folder: Path) -> None:
    write_parquet(folder / "items", "0.parquet", items())
    names = {"name": ["a", "a", None, "item 3"], "number": pa.array([4, 4, 3, None], pa.int32())}
    write_parquet(folder / "names", "0.parquet", pa.table(names))
    parts = {"of": ["item 1", "item 2", "zero", "none"], "weight": [1.5, float("nan"), 0.0, None]}
    write_parquet(folder / "parts", "0.parquet", pa.table(parts))


def job_of(folder: Path, mode: Mode, sql: Mapping[str, str], *, is_later: bool = False) -> Job:
    """A job with an output for each text.  is_later: the texts read the rows of a keyed step, which has them all."""
    source = Source.parquet(folder / "in", schema="n long, k int, text string, share double", bounded=mode == "batch")
    checkpoints = None if mode == "batch" else folder / "checkpoints"
    functions = {"count_char": COUNT_CHAR} if "count_char" in str(sql) else {}
    settings = {"checkpoint_dir": checkpoints, "spark": SPARK, "parallelism": 2}
    job = Job("j", sources={"given" if is_later else "t": source}, functions=functions, mode=mode, **settings)  # type: ignore[arg-type]
    schemas = {
        "Items": "id long, label string, price int, n int",
        "names": "name string, number int",
        "parts": "of string, weight double",
    }
    for name, schema in schemas.items():
        if any(name.lower() in text.lower() for text in sql.values()):
            job = job.dimension(name, Source.parquet(folder / name.lower(), schema=schema))
    given = job.source("given").key_by("n", name="t").deduplicate(keep="any") if is_later else job.source("t")
    for number, (name, text) in enumerate(sql.items()):
        stream = given.sql(text, name=f"s{number}")
        job = job.output(name.replace(" ", "_"), stream, Sink.parquet(folder / "out" / name))
    return job


def found(folder: Path, sql: Mapping[str, str]) -> dict[str, Counter[str]]:
    def values(row: Mapping[str, object]) -> str:
        return str([row[name] for name in sorted(row) if not name.startswith("_")])

    return {name: Counter(map(values, output_rows(folder / "out" / name))) for name in sql}


@pytest.mark.parametrize("mode", [pytest.param("batch", marks=pytest.mark.soak), "mixed"])
def test_the_answer_does_not_depend_on_who_joins(spark: SparkSession, tmp_path: Path, mode: Mode) -> None:
    answers = {}
    for way in ("arrow", "spark"):
        folder = tmp_path / way
        write_dimensions(folder)
        write_parquet(folder / "in", "0.parquet", rows(0))
        job = job_of(folder, mode, JOINS)
        with by_spark(forced=way == "spark"):
            plan = analyse(spark, job.spec, job.where).plan
            assert (set(plan.listed) == {"t"}) == (way == "arrow"), plan.by_spark
            run(
                job,
                spark,
                feed=[] if mode == "batch" else [partial(write_parquet, folder / "in", "1.parquet", rows(1))],
            )
        answers[way] = found(folder, JOINS)
    for name, rows_found in answers["spark"].items():
        assert answers["arrow"][name] == rows_found, name
        assert rows_found, name


#: what follows a keyed step
LATER = ("left", "anti", "residual", "two_tables")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        pytest.param("batch", "", marks=pytest.mark.soak),
        ("mixed", ""),
        ("mixed", "equal keys"),
        pytest.param("mixed", "too many rows", marks=pytest.mark.soak),
    ],
)
def test_rows_of_a_keyed_step_are_joined_on_arrow_or_by_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: Mode,
    reason: str,
) -> None:
    """A version that tasks cannot join is joined by Spark, in the same epoch."""
    caplog.set_level("INFO", logger="mixedmode.executor.dimensions")
    if reason == "too many rows":
        monkeypatch.setattr(dimensions, "ROWS_MAX", 2)
    sql = {name: JOINS[name] for name in LATER}
    answers = {}
    for is_later in (False, True):
        folder = tmp_path / str(is_later)
        write_dimensions(folder)
        if reason == "equal keys":
            write_parquet(folder / "items", "0.parquet", items(*AGAIN))
        write_parquet(folder / "in", "0.parquet", rows(0))
        job = job_of(folder, mode, sql, is_later=is_later)
        plan = analyse(spark, job.spec, job.where).plan
        assert not plan.inner_by_spark
        more = partial(write_parquet, folder / "in", "1.parquet", rows(1))
        run(job, spark, feed=[] if mode == "batch" else [more])
        answers[is_later] = found(folder, sql)
    assert answers[True] == answers[False]
    assert all(answers[True].values())
    assert ("Spark joins Items, version " in caplog.text) == bool(reason)


@pytest.mark.parametrize("name", LEFT)
def test_explain_says_why_spark_joins(spark: SparkSession, tmp_path: Path, name: str) -> None:
    sql, why = LEFT[name]
    write_dimensions(tmp_path)
    write_parquet(tmp_path / "in", "0.parquet", rows(0))
    job = job_of(tmp_path, "mixed", {name: sql})
    text = "".join(explain_plan(job.spec, analyse(spark, job.spec, job.where).plan, cores=2))
    assert "by Spark (because" in text
    assert why in text


@pytest.mark.parametrize("reason", ["equal keys", "too many rows", "too many bytes"])
def test_spark_joins_a_version_that_tasks_cannot(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """The second epoch reads a version that tasks cannot join, and a later start one that they can."""
    left: list[int] = []
    rows_of_files = SparkExecutor._rows_of_files

    def by_spark_again(self: SparkExecutor, task: EpochTask, found: DataFrame) -> dict[str, DataFrame]:
        left.append(task.epoch)
        return rows_of_files(self, task, found)

    monkeypatch.setattr(SparkExecutor, "_rows_of_files", by_spark_again)
    if reason != "equal keys":
        limit = {"too many rows": "ROWS_MAX", "too many bytes": "BYTES_MAX"}[reason]
        monkeypatch.setattr(dimensions, limit, {"ROWS_MAX": 9, "BYTES_MAX": 250}[limit])
    write_dimensions(tmp_path)
    write_parquet(tmp_path / "in", "0.parquet", rows(0))
    job = job_of(tmp_path, "mixed", {"inner": JOINS["inner"]})

    def more() -> Path:
        write_parquet(tmp_path / "items", "0.parquet", items(*AGAIN))
        return write_parquet(tmp_path / "in", "1.parquet", rows(1))

    run(job, spark, feed=[more])
    assert len(left) == 1
    write_dimensions(tmp_path)
    run(job, spark, feed=[partial(write_parquet, tmp_path / "in", "2.parquet", rows(2))])
    assert len(left) == 1
    assert [bool(one.dimensions) for one in manifests(tmp_path / "checkpoints")] == [True, True, True]
    epochs: dict[int, Counter[str]] = {}
    for row in output_changes(tmp_path / "out" / "inner"):
        epochs.setdefault(row["_epoch"], Counter())[row["label"]] += 1
    labels = [epochs[epoch] for epoch in sorted(epochs)]
    expected = Counter(f"item {row['k']}" for row in rows(1).to_pylist() if row["k"] not in (None, 0, 7))
    again = {label: expected[f"item {id_}"] for id_, label in AGAIN}
    assert labels[1] == expected + Counter(again)
    assert not {label for _, label in AGAIN} & (labels[0] | labels[2]).keys()
