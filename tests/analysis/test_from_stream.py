"""A streaming DataFrame becomes a source and steps, which return the rows of the same DataFrame in Spark's batch."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.config import DeduplicateStep, SqlStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, JobResult, Sink
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph
from tests.analysis.grouped_rows import shown
from tests.docs.test_snippets import blocks

pytestmark = pytest.mark.spark

#: makes a DataFrame of a DataFrame, streaming or not
Query: TypeAlias = Callable[[DataFrame], DataFrame]

DDL = "k string, v bigint, w decimal(8,2), words string, `odd name` int, n struct<x: int, `y z`: string>, at timestamp"
START = datetime(2024, 1, 1, tzinfo=UTC)


def records(count: int) -> list[dict[str, Any]]:
    """Records with NULLs, of which no two have one time."""
    chosen = random.Random(count)
    times = chosen.sample(range(60_000), count)
    return [
        {
            "k": chosen.choice(["a", "b", "it's", None]),
            "v": chosen.choice([1, 2, 3, -4, None]),
            "w": chosen.choice([None, "1.50", "250.50"]),
            "words": chosen.choice(["x", "y x", "a`b  y", None]),
            "odd name": chosen.choice([0, 1]),
            "n": chosen.choice([None, {"x": 1, "y z": "q"}, {"x": None, "y z": "r"}]),
            "at": START + timedelta(seconds=second),
        }
        for second in times
    ]


ROWS = records(90)


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("in")
    return spark.readStream.schema(DDL).parquet(str(folder)).withWatermark("at", "90 seconds")


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[DataFrame]:
    frame = spark.createDataFrame(ROWS, DDL.replace("w decimal(8,2)", "w string"))
    frame = frame.withColumn("w", frame["w"].cast("decimal(8,2)")).coalesce(1).cache()
    frame.count()
    yield frame
    frame.unpersist()


def steps_of(query: DataFrame) -> list[str | dict[str, Any]]:
    """The texts of the sql steps of a stream, and the settings of others."""
    steps = Job.from_stream(query, "taken", mode="batch").steps
    return [
        step.sql if isinstance(step, SqlStep) else step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for step in steps
    ]


def rows_by_steps(spark: SparkSession, table: DataFrame, query: DataFrame) -> DataFrame:
    """The rows of the steps of a stream, one after the other, computed by Spark's batch."""
    name, found = "records", table
    for step in Job.from_stream(query, "taken", mode="batch").steps:
        if isinstance(step, DeduplicateStep):
            others = [column for column in found.columns if column not in step.key_by]
            found = found.dropDuplicates([*step.key_by]).select(*step.key_by, *(f"`{column}`" for column in others))
        else:
            assert isinstance(step, SqlStep)
            with views(spark, {name: found}):
                found = spark.sql(step.sql)
        name = "previous"
    return found


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        (lambda d: d, ["SELECT * FROM records"]),
        (lambda d: d.where("v > 1L").select("k", F.col("n.y z").alias("z")), [
            "SELECT k, n.`y z` AS z FROM records WHERE (v > 1L)"
        ]),
        (lambda d: d.groupBy("k").agg(F.count("*"), F.sum("v").alias("t")).where("t > 3L"), [
            "SELECT * FROM (SELECT k, count(1) AS `count(1)`, sum(v) AS t FROM records GROUP BY k) WHERE (t > 3L)"
        ]),
        (lambda d: d.agg(F.max("v")).select(F.col("max(v)").alias("most")), [
            "SELECT max_v AS most FROM (SELECT max(v) AS max_v FROM records)"
        ]),
        (lambda d: d.groupBy(F.window("at", "1 hour"), "k").count(), [
            "SELECT window(at, '1 hour') AS window, k, count(1) AS count FROM records GROUP BY window(at, '1 hour'), k"
        ]),
        (lambda d: d.groupBy(F.window("at", "3 hours", "1 hour", "5 minutes").alias("w")).count().select("w.start"), [
            ("SELECT w.`start` AS start FROM (SELECT window(at, '3 hours', '1 hour', '5 minutes') AS w, "
            "count(1) AS count FROM records GROUP BY window(at, '3 hours', '1 hour', '5 minutes'))")
        ]),
        (lambda d: d.groupBy(F.session_window("at", "90 seconds")).count(), [
            ("SELECT session_window(at, '90 seconds') AS session_window, count(1) AS count FROM records "
            "GROUP BY session_window(at, '90 seconds')")
        ]),
        (lambda d: d.select(F.explode(F.split("words", " ")).alias("word")).groupBy("word").count(), [
            ("SELECT word, count(1) AS count FROM (SELECT word FROM records LATERAL VIEW "
            "explode(split(words, ' ', -1)) made_1 AS word) GROUP BY word")
        ]),
        (lambda d: d.select(F.from_json("words", "a INT, b DATE", {"dateFormat": "d.M.y"}).alias("j")).select("j.*"), [
            ("SELECT j.`a` AS a, j.`b` AS b FROM (SELECT from_json(words, 'STRUCT<a: INT, b: DATE>', "
            "map('dateFormat', 'd.M.y')) AS j FROM records)")
        ]),
        (lambda d: d.dropDuplicates(["odd name", "k"]), [
            "SELECT k, v, w, words, `odd name` AS odd_name, n, at FROM records",
            {"key-by": ["odd_name", "k"], "deduplicate": {"keep": "any"}},
            "SELECT k, v, w, words, odd_name AS `odd name`, n, at FROM previous",
        ]),
        (lambda d: d.select("k", "v").distinct(), [
            "SELECT k, v FROM records",
            {"key-by": ["k", "v"], "deduplicate": {"keep": "any"}},
        ]),
        (lambda d: d.select("k", "at").dropDuplicatesWithinWatermark(["k"]), [
            "SELECT k, at FROM records",
            {"key-by": ["k"], "deduplicate": {"keep": "any", "within": "1m30s"}},
        ]),
    ],
)  # fmt: skip
def test_the_steps_of_a_stream(stream: DataFrame, query: Query, steps: list[Any]) -> None:
    assert steps_of(query(stream)) == steps


def test_a_source_has_the_settings_of_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.readStream.schema("k string, ts bigint, at string").option("header", True).option("sep", ";")
    made = reader.option("maxFilesPerTrigger", 7).csv(str(tmp_path)).withColumn("at", F.timestamp_millis("ts"))
    job = Job.from_stream(
        made.withWatermark("at", "1 hour").groupBy(F.window("at", "1 day")).count(), "taken", mode="batch"
    )
    source = job.settings.sources["records"].model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert source == {
        "format": "csv",
        "path": str(tmp_path),
        "schema": "k STRING,ts BIGINT,at STRING",
        "options": {"header": "true", "sep": ";"},
        "max-files-per-epoch": 7,
        "computed-columns": {"at_2": "timestamp_millis(ts)"},
        "event-time": "at_2",
        "watermark": {"out-of-orderness": "1h"},
    }
    assert isinstance(job.steps[0], SqlStep)
    assert job.steps[0].sql == (
        "SELECT window(at_2, '1 day') AS window, count(1) AS count FROM (SELECT k, ts, at_2 FROM records) "
        "GROUP BY window(at_2, '1 day')"
    )
    assert job.write(Sink.parquet("/out")).validate()["sink"].names == ["window", "count"]


def test_a_job_keeps_what_sql_means_in_the_session(spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    other.conf.set("spark.sql.ansi.enabled", "false")
    made = other.readStream.schema("k string, at timestamp").parquet(str(tmp_path)).select(F.hour("at").alias("h"))
    job = Job.from_stream(made, "taken", mode="batch", spark={"spark.driver.memory": "1g"})
    assert job.settings.spark["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert job.settings.spark["spark.sql.ansi.enabled"] == "false"
    assert job.settings.spark["spark.driver.memory"] == "1g"
    with pytest.raises(InvalidJobError, match=r"change what SQL computes.*found=sql\.caseSensitive, sql\.session"):
        Job.from_stream(
            made, "taken", mode="batch", spark={"sql.session.timeZone": "UTC", "spark.sql.caseSensitive": True}
        )


def sql_of(given: DataFrame, text: str) -> DataFrame:
    """The rows of a text over the view d."""
    with views(given.sparkSession, {"d": given}):
        return given.sparkSession.sql(text)


def plus_one(value: int) -> str:
    return str(value + 1)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            lambda d: (
                d.groupBy(F.window("at", "1 hour").alias("w"), "k")
                .count()
                .dropDuplicates(["k"])
                .groupBy(F.window("w", "1 day"))
                .count()
            ),
            "Between the two groupBy may be where and select. found=windows of windows",
        ),
        (
            lambda d: d.groupBy(F.window("at", "1 hour")).count().select(F.window_time("window")),
            "Select the end of the window, .* found=window_time in a select",
        ),
        (lambda d: d.cube("k").count(), "found=an aggregate with several sets of keys"),
        (
            lambda d: d.join(d.sparkSession.range(3), d["v"] == F.col("id")),
            "with select and where.* found=Range in a table",
        ),
        (lambda d: sql_of(d, "WITH c AS (SELECT k FROM d) SELECT * FROM c"), "a temporary view, .* found=WithCTE"),
        (lambda d: sql_of(d, "SELECT k FROM d WHERE EXISTS (SELECT 1)"), "does not read the text .* found=SELECT k"),
        (lambda d: d.limit(3), "Use key-by with top .* found=GlobalLimit"),
        (
            lambda d: d.select(F.lag("v").over(Window.partitionBy("k").orderBy("at"))),
            r"as \.key_by\(\.\.\.\)\.over\(\.\.\.\), .* found=Window",
        ),
        (lambda d: d.withWatermark("at", "1 hour"), "call withWatermark once. found=a second withWatermark"),
        (lambda d: d.select(F.udf(plus_one, useArrow=False)("v")), "does not read the text .* found=.*plus_one"),
        (lambda d: d.select(F.transform(F.array("v"), lambda x: x + 1)), "does not read the text .* found="),
        (lambda d: d.select(F.rand().alias("r")), "does not read the text .* found="),
        (lambda d: d.groupBy(F.window(F.date_trunc("hour", "at"), "1 day")).count(), "does not read the text"),
        (lambda d: d.groupBy(F.session_window("at", F.col("k"))).count(), "does not read the text"),
        (lambda d: d.groupBy("k").applyInArrow(lambda t: t, d.schema), "found=FlatMapGroupsInArrow"),
        (lambda d: d.mapInPandas(lambda rows: rows, d.schema), "a step with map, .* found=MapInPandas"),
    ],
)
def test_what_a_job_cannot_take_over_is_refused(stream: DataFrame, query: Query, found: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"(?s)^Job\.from_stream: .*{found}"):
        Job.from_stream(query(stream), "taken", mode="batch")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda s, _: s.range(3), "begin it with spark.readStream. found=a DataFrame of spark.read"),
        (lambda s, _: s, "found=SparkSession"),
        (lambda s, _: s.readStream.format("rate").load(), "the stream reads a source .* found=rate"),
        (lambda s, path: s.readStream.text(path), "the stream reads a source .* found=text"),
        (
            lambda s, path: s.readStream.schema(DDL).parquet(path).groupBy(F.window("at", "1 day")).count(),
            "Call withWatermark before it. found=window without",
        ),
        (
            lambda s, path: s.readStream.schema(DDL).parquet(path).select("k", "_metadata.file_name"),
            "the query reads _metadata",
        ),
        (
            lambda s, path: s.readStream.schema(DDL).parquet(path).where("v > 1").withWatermark("at", "1 day"),
            "call withWatermark before this part. found=Filter",
        ),
        (
            lambda s, path: s.readStream.schema(DDL).option("latestFrist", True).parquet(path),
            r"options\['latestFrist'\] is not an option",
        ),
    ],
)
def test_other_frames_and_sources_are_refused(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, str], DataFrame], found: str
) -> None:
    with pytest.raises(InvalidJobError, match=rf"^Job\.from_stream: .*{found}"):
        Job.from_stream(make(spark, str(tmp_path)), "taken", mode="batch")


#: expressions as text: a Column can be made only where there is a session
COLUMNS = st.sampled_from(
    [
        "k",
        "upper(k)",
        "v * 2 + 1",
        "CAST(w AS double) / 3",
        "n.x",
        "n.`y z`",
        "string(coalesce(`odd name`, 7))",
        "CASE WHEN v > 1 THEN 'many' WHEN k IS NULL THEN 'none' ELSE concat_ws('|', k, words) END",
        "date_trunc('hour', at)",
        "hour(at)",
        "at - INTERVAL '1' DAY",
        "to_date(at)",
        "named_struct('k', k, 'x', v)",
        "array(v, NULL)",
        "'it\\'s a `b`\\\\'",
        "regexp_replace(words, '[xy]', '$0z')",
        "CASE WHEN v IN (1, 2) THEN DATE '2024-01-01' END",
        "nvl(v, 0.5)",
        "try_divide(v, `odd name`)",
    ]
)
CONDITIONS = st.sampled_from(
    [
        "v > 1",
        "k IS NULL OR `odd name` = 0",
        "NOT k IN ('a', 'it\\'s')",
        "words LIKE '%x%' AND v IS NOT NULL",
        "n.x <=> 1",
        "v BETWEEN -5 AND 2",
        "hour(at) < 9",
    ]
)
KEYS = st.sampled_from(["k", "`odd name`", "v % 2", "to_date(at)", "upper(words)", "n.x"])
CALLS = st.sampled_from(
    [
        "count(*)",
        "sum(v)",
        "avg(w)",
        "max(named_struct('v', v).v)",
        "count(DISTINCT words)",
        "sum(DISTINCT v)",
        "min(coalesce(k, words))",
        "sum(v) FILTER (WHERE k = 'a')",
        "max_by(words, at)",
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY v)",
        "sum(v) / count(*)",
        "CASE WHEN max(at) IS NOT NULL THEN count(k) END",
    ]
)
WINDOWS = st.sampled_from(
    [
        None,
        "window(at, '1 hour')",
        "window(at, '3 hours', '30 minutes')",
        "window(at, '2 hours', '90 minutes', '7 minutes')",
        "session_window(at, '20 minutes')",
    ]
)


@st.composite
def queries(draw: st.DrawFn) -> list[Query]:
    """Transformations of a DataFrame, one after the other."""
    columns = [f"{text} AS `c {number}`" for number, text in enumerate(draw(st.lists(COLUMNS, max_size=4)))]
    made: list[Query] = [lambda d: d.selectExpr("*", *columns)] if columns else []
    conditions = draw(st.lists(CONDITIONS, max_size=2))
    made += [partial(DataFrame.where, condition=condition) for condition in conditions]
    if draw(st.booleans()):
        made.append(lambda d: d.dropDuplicates(["at", "odd name"]))
    if draw(st.booleans()):
        made.append(lambda d: d.withColumn("word", F.explode(F.split("words", " "))).drop("words"))
        made.append(lambda d: d.withColumnRenamed("word", "words"))
    if draw(st.booleans()):
        keys, window = draw(st.lists(KEYS, max_size=2, unique=True)), draw(WINDOWS)
        keys = [window, *keys] if window else keys or ["k"]
        calls = [
            f"{text} AS `call {number}`" for number, text in enumerate(draw(st.lists(CALLS, min_size=1, max_size=3)))
        ]
        made.append(lambda d: d.groupBy(*map(F.expr, keys)).agg(*map(F.expr, calls)))
        if draw(st.booleans()):
            made.append(lambda d: d.where(F.col("call 0").isNotNull()).select("call 0"))
            made.append(lambda d: d.groupBy("call 0").count())
    return made


@settings(
    max_examples=10, phases=[Phase.generate], deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=queries())
def test_the_steps_return_the_rows_of_the_stream(
    spark: SparkSession, stream: DataFrame, table: DataFrame, query: list[Query]
) -> None:
    streaming, expected = stream, table
    for one in query:
        streaming, expected = one(streaming), one(expected)
    found = rows_by_steps(spark, table, streaming)
    assert found.dtypes == expected.dtypes
    assert Counter(map(str, found.collect())) == Counter(map(str, expected.collect()))


@pytest.mark.parametrize(
    "query",
    [
        lambda d: (
            d.where("v > -4").groupBy(F.window("at", "10 minutes", "5 minutes"), "k").agg(F.count("*"), F.sum("v"))
        ),
        lambda d: d.select(F.explode(F.split("words", " ")).alias("word")).groupBy("word").count(),
        lambda d: (
            d.groupBy(F.window("at", "10 minutes"), "k")
            .count()
            .where("count > 0")
            .groupBy(F.window(F.window_time("window"), "1 hour"))
            .agg(F.sum("count").alias("n"))
        ),
        lambda d: (
            d.groupBy(F.window("at", "10 minutes").alias("w"), "k").count().groupBy("w").agg(F.max("count").alias("n"))
        ),
        lambda d: d.groupBy("k").agg(F.max("v").alias("v")).agg(F.count("*"), F.bool_or(F.col("v") > 2), F.avg("v")),
        lambda d: d.groupBy("k").agg(
            F.mode("v", deterministic=True), F.expr("mode() WITHIN GROUP (ORDER BY words DESC)")
        ),
        lambda d: d.drop("n").dropDuplicates(["k", "odd name"]).select("odd name", "k"),
    ],
)
@pytest.mark.parametrize("modes", ["mixed", pytest.param("batch and streaming", marks=pytest.mark.soak)])
def test_all_modes_return_the_rows_of_sparks_batch(
    stream: DataFrame, table: DataFrame, query: Query, modes: str
) -> None:
    job = Job.from_stream(query(stream), "taken", mode="batch")
    rows = [row.asDict(recursive=True) for row in table.orderBy("at").collect()]
    expected = Counter(shown(row.asDict(recursive=True)) for row in query(table).collect())
    parts = [{"records": rows[:60]}, {"records": rows[60:]}]
    if modes == "mixed":
        found = [run_graph(job, parts[0], live=parts[1:])]
    else:
        found = [run_graph(job, {"records": rows}), run_graph(job, live=parts)]
    for outputs in found:
        assert Counter(map(shown, outputs.table())) == expected


def test_a_job_of_a_stream_goes_on_where_it_stopped(spark: SparkSession, table: DataFrame, folder: Path) -> None:
    def query(given: DataFrame) -> DataFrame:
        kept = (
            given.drop("n")
            .withColumn("time", F.col("at") + F.expr("INTERVAL 1 HOUR"))
            .withWatermark("time", "5 minutes")
        )
        return (
            kept.dropDuplicates(["time", "k"]).groupBy(F.window("time", "1 hour").alias("w")).agg(F.sum("v").alias("s"))
        )

    expected = Counter(shown(row.asDict(recursive=True)) for row in query(table).collect())

    def run(until: Literal["idle", "drained"]) -> JobResult:
        made = query(spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in")))
        job = Job.from_stream(made, "goes-on", mode="mixed", checkpoint_dir="checkpoints", parallelism=2)
        return job.write(Sink.parquet("out")).run(until=until)

    table.where("at < '2024-01-01 08:00'").write.parquet(str(folder / "in"))
    run("idle")
    table.where("at >= '2024-01-01 08:00'").write.mode("append").parquet(str(folder / "in"))
    result = run("drained")
    assert result.table().schema.names == ["w", "s"]
    assert Counter(map(shown, result.table().to_pylist())) == expected


def test_a_relative_path_is_one_of_the_folder_in_which_spark_was_started(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    jvm: Any = spark.sparkContext._jvm
    started_in = jvm.java.lang.System.getProperty("user.dir")
    frame = spark.readStream.schema(DDL).parquet(os.path.relpath(folder / "in", started_in))
    assert Job.from_stream(frame, "taken", mode="batch").settings.sources["records"].place == f"parquet {folder / 'in'}"


def test_the_jobs_in_the_documents(spark: SparkSession, folder: Path) -> None:
    block = next(one for one in blocks("python") if "from_stream" in one.text)
    names: dict[str, Any] = {}
    exec(compile(block.text.replace('"data/', f'"{folder}/data/'), str(block), "exec"), names)
    for name in ("orders", "payments", "users"):
        (folder / "data" / name).mkdir(parents=True)
    job = names["totals"](spark)
    assert job.validate()["sink"].names == ["window", "user", "orders", "sum(amount)"]
    assert "tumbling" in job.explain()
    paid = names["paid"](spark)
    assert paid.validate()["sink"].names == ["window", "region", "orders", "sum(amount)"]
    assert "joins       left: records_1 with records_2 whose time is from 0s to 4h after its own" in paid.explain()
