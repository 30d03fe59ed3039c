"""Jobs that are refused before they run: one message with the place, what is wrong, and what to do."""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config.graph import MAIN
from mixedmode.config.sources import SourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from tests.harness import SPARK, write_parquet, write_text

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, at timestamp, l array<bigint>"
_SUGGESTIONS = re.compile(r"\[(`[^]]*`)]")
STATEFUL = (
    "steps[0].sql: SQL sees one record at a time here, because an epoch has only some of the records. The result over "
    "several records would not be the same live and in batch. "
)
ONE_GROUP_BY = (
    "Use a keyed step for it: aggregate, with key-by and `window`; or GROUP BY in SQL, with nothing but SELECT and "
    "HAVING around it in the same parentheses. found=Aggregate"
)
BOTH = (
    "Put the join into a sql step of its own, with SELECT, WHERE, LATERAL VIEW and UNION ALL around it; or use a step "
    "with join. Its type may be semi, for IN and EXISTS, or anti. found="
)
NO_QUERY = (
    "steps[0].sql: a sql step is a SELECT over a source or over the step before it, and this one reads neither. "
    "Name one of them after FROM."
)
KEY_TYPE = (
    "a column of this type cannot be part of a key, because it has no defined byte order here. Cast it in a `sql` step "
    "to an integer, boolean, string, binary, date, timestamp (microseconds), decimal (up to 38 digits) or "
    "floating-point type. "
)
ARGUMENT_TYPE = (
    "max does not take values of this type. Cast the argument in a sql step, for example CAST(x AS STRING), or name a "
    "field of it. "
)
KEY_CHANGED = (
    "steps[1].sql: the sql after the last key-by changes its key, so rows of several keys could end as one, and which "
    "one would depend on the epoch. Select the key columns as they are (no expression, no UNION), put a key-by "
    "after the sql, or name columns that identify a row in the `key` of the output. changed="
)
UNREPEATABLE = (
    "this has another value each time it is computed. So no two runs and no two modes would agree, and rows may be "
    "lost or doubled when Spark repeats a task. Compute it from the record, as in pmod(xxhash64(id), 100) for a "
    "sample, or sha2(concat_ws('|', a, b), 256) for an id. found="
)
CLOCK_AFTER_KEY = (
    "after a keyed step, sql must return the same row for the same input at any time, because a changed row is "
    "retracted by computing it again, and this reads the clock. Compute it in a sql step before the first key-by. "
    "found="
)
SEVERAL_ROWS = (
    "steps[1].sql: the sql after the last key-by may return several rows for one key, and the output has one row per "
    "key. Put a key-by after the sql, keep the values in an array, look one value up with a scalar subquery over "
    "VALUES, or name columns that identify a row in the `key` of the output. found="
)
NO_TIME = (
    "first goes by event time, and this step's input has none. Set `event-time` on the source, and keep that column in "
    "the sql steps before this one; the result of a keyed step has no event time."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("refusals")


def job(folder: Path, source: SourceSpec | None = None, **more: SourceSpec) -> Job:
    (folder / "in").mkdir(exist_ok=True)
    source = source or Source.parquet(folder / "in", schema=DDL, event_time="at")
    return Job(
        "refused", sources={"t": source, **more}, mode="mixed", checkpoint_dir=folder / "checkpoints", spark=SPARK
    )


def refusal(spark: SparkSession, steps: Job) -> str:
    """The message about a job, with what Spark suggests in the order of the alphabet."""
    complete = steps.write(Sink.parquet("out"))
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, complete.spec, complete.where)
    return _SUGGESTIONS.sub(lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", str(caught.value))


def is_accepted(spark: SparkSession, steps: Job) -> bool:
    complete = steps.write(Sink.parquet("out"))
    return bool(analyse(spark, complete.spec, complete.where).plan.results[MAIN].fields)


def test_sql_over_many_records_is_refused_with_its_place(spark: SparkSession, folder: Path) -> None:
    assert (
        refusal(spark, job(folder).sql("SELECT * FROM (SELECT k, v FROM t) PIVOT (sum(v) FOR k IN ('a', 'b'))"))
        == STATEFUL + ONE_GROUP_BY
    )


def test_sql_over_many_records_is_refused_in_batch_too(spark: SparkSession, folder: Path) -> None:
    source = Source.parquet(folder / "in", schema=DDL, bounded=True)
    steps = Job("refused", sources={"t": source}, mode="batch", spark=SPARK)
    sort = "Sort the rows where the output is read. found=Sort"
    assert refusal(spark, steps.sql("SELECT k FROM t ORDER BY k")) == STATEFUL + sort


def test_a_group_by_is_a_keyed_step_for_the_steps_after_it(spark: SparkSession, folder: Path) -> None:
    sums = job(folder).sql("SELECT k, sum(v) AS total FROM t GROUP BY k")
    assert is_accepted(spark, sums.sql("SELECT total, count(*) AS n FROM previous GROUP BY total"))
    mapped = sums.map("tests.maps:Doubled", output="k string")
    assert refusal(spark, mapped) == "steps[1].map must come before the first GROUP BY. Move it, or use sql."
    assert is_accepted(spark, sums.sql("SELECT DISTINCT total FROM previous"))
    assert "drops its key" in refusal(spark, job(folder).sql("SELECT sum(v) AS total FROM t GROUP BY k"))
    windows = "SELECT window.start AS since, count(*) AS n FROM {} GROUP BY window({}, '1 hour')"
    moved = job(folder).sql("SELECT at AS moved, v FROM t").sql(windows.format("previous", "moved"))
    assert "windows go by the event time of a source, and this one goes by another column" in refusal(spark, moved)
    assert is_accepted(spark, job(folder).sql(windows.format("t", "at")))


def test_two_sources_may_be_brought_together_and_joined_by_a_key(spark: SparkSession, folder: Path) -> None:
    other = Source.parquet(folder / "in", schema=DDL)
    both = job(folder, other=other)
    assert is_accepted(spark, both.sql("SELECT t.k FROM t JOIN other ON t.k = other.k"))
    text = "SELECT t.k FROM t JOIN other ON t.k = other.k UNION ALL SELECT k FROM t"
    assert is_accepted(spark, both.sql(text))
    pairs = "SELECT t.k, t.v AS a, other.v AS b FROM t JOIN other ON t.k = other.k"
    text = f"SELECT * FROM ({pairs}) UNPIVOT (v FOR name IN (a, b))"
    assert refusal(spark, both.sql(text)) == f"{STATEFUL}{BOTH}Inner join of two inputs"
    assert is_accepted(spark, job(folder, other=other).sql("SELECT k FROM t UNION ALL SELECT k FROM other"))


def test_sql_reads_the_rows_of_several_inputs_as_one(spark: SparkSession, folder: Path) -> None:
    """That their columns are found by name is tested in tests/driver/test_sql_files.py."""
    several = job(folder, other=Source.parquet(folder / "in", schema=DDL))
    t, other = several.source("t"), several.source("other")

    def analysed(stream: Stream) -> None:
        complete = several.output("out", stream, Sink.parquet("out"))
        analyse(spark, complete.spec, complete.where)

    analysed(t.union(other).sql("SELECT k, v FROM previous"))
    analysed(t.union(other).sql("SELECT k, count(*) AS n FROM previous GROUP BY k"))
    differing = t.sql("SELECT k, v FROM t").union(other.sql("SELECT v, at FROM other"))
    with pytest.raises(InvalidJobError) as caught:
        analysed(differing.sql("SELECT * FROM previous"))
    assert str(caught.value) == (
        "steps[2].from: a step reads the rows of several inputs as one, so they need the same columns of the same "
        "types. Make them so in sql steps, one for each input. inputs=sql_1, sql_2, differing=at, k"
    )


def test_sql_after_an_aggregate_over_all_rows_returns_one_row(spark: SparkSession, folder: Path) -> None:
    steps = job(folder).aggregate(n="count(*)")
    assert is_accepted(spark, steps.sql("SELECT n + 1 AS m FROM previous WHERE n > 2"))
    doubled = steps.sql("SELECT n FROM previous UNION ALL SELECT n FROM previous")
    assert refusal(spark, doubled) == f"{SEVERAL_ROWS}UNION"


def keyed(folder: Path, steps: Job, key: str) -> Job:
    return steps.write(Sink.parquet(folder / "out"), key=key)


def test_columns_of_a_key_exist_and_belong_to_rows_of_a_keyed_step(spark: SparkSession, folder: Path) -> None:
    aggregate = job(folder).key_by("k").aggregate(n="count(*)", l="collect_list(v, 3)")
    places = {
        "sink.key: there is no column m. Columns here: k, n, l.": keyed(folder, aggregate, "m"),
        f"sink.key: {KEY_TYPE}": keyed(folder, aggregate, "l"),
        "sink.key: no keyed step is before this output, so its rows are only added, and need no key.": keyed(
            folder, job(folder).sql("SELECT k, v FROM t"), "k"
        ),
    }
    for message, steps in places.items():
        with pytest.raises(InvalidJobError) as caught:
            analyse(spark, steps.spec, steps.where)
        assert str(caught.value).startswith(message)


def test_a_key_that_has_the_key_of_the_step_needs_no_state(spark: SparkSession, folder: Path) -> None:
    aggregate = job(folder).key_by("k").aggregate(n="count(*)")
    renamed = aggregate.sql("SELECT k AS name, n, n > 3 AS is_large FROM previous")
    computed = aggregate.sql("SELECT upper(k) AS name, n FROM previous")

    def states(steps: Job) -> list[int]:
        stages = analyse(spark, steps.spec, steps.where).plan.stages
        return [len(stage.operator.states) for stage in stages]

    assert states(keyed(folder, aggregate, "K")) == [1], "rows of the step as they are"
    assert states(keyed(folder, renamed, "name")) == [1, 0]
    assert states(renamed.write(Sink.parquet(folder / "out"), key=["is_large", "NAME"])) == [1, 0]
    assert states(keyed(folder, computed, "name")) == [1, 1], "two keys may have one name"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("count(*) > 1", "the condition is about the results of the step, and calls an aggregate itself."),
        (
            "n + 1",
            "a condition is true or false, and this is neither. Compare it, as in `n > 3`. found=n + 1, type=bigint",
        ),
        ("m > 1", "Spark refuses this SQL. cause="),
        ("n >", "Spark refuses this SQL. cause="),
        ("n > 1) OR (n < 0", "Spark refuses this SQL. cause="),
        ("rand() > 0.5", f"{UNREPEATABLE}rand"),
        ("n > (SELECT max(v) FROM t)", "Spark refuses this SQL. cause="),
        ("now() > timestamp '2024-01-01'", f"{CLOCK_AFTER_KEY}now"),
    ],
)
def test_a_condition_on_results_is_about_one_result(
    condition: str, message: str, spark: SparkSession, folder: Path
) -> None:
    steps = job(folder).key_by("k").aggregate(n="count(*)", having=condition)
    assert refusal(spark, steps).startswith(f"steps[0].having: {message}")


def test_a_subquery_that_is_a_value_of_an_input_is_refused(spark: SparkSession, folder: Path) -> None:
    message = refusal(spark, job(folder).sql("SELECT k FROM t WHERE v = (SELECT max(v) FROM t)"))
    assert "join the input with a query in parentheses" in message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v + 1 AS w FROM t WHERE v > 0",
        "-- a comment\nSELECT k FROM t;",
        "SELECT t.k, name FROM t LEFT JOIN (VALUES ('a', 'Anna')) AS names(k, name) ON t.k = names.k",
        "SELECT k, explode(l) AS x FROM t",
    ],
)
def test_sql_over_one_record_at_a_time_is_accepted(spark: SparkSession, folder: Path, sql: str) -> None:
    assert is_accepted(spark, job(folder).sql(sql))


@pytest.mark.parametrize(
    "build",
    [
        lambda j, sql: j.sql(sql),
        lambda j, sql: j.sql("SELECT * FROM t").sql(sql.replace(" t", " previous")),
        lambda j, sql: j.key_by("k", "v").aggregate(n="count(*)").sql(sql.replace(" t", " previous")),
    ],
)
def test_a_table_beside_the_input_is_refused_in_every_step(
    spark: SparkSession, folder: Path, build: Callable[[Job, str], Job]
) -> None:
    write_parquet(folder / "names", "a.parquet", pa.table({"name": ["a"]}))
    sql = f"SELECT k, v FROM t WHERE k NOT IN (SELECT name FROM parquet.`{folder / 'names'}`)"
    message = refusal(spark, build(job(folder), sql))
    assert message.endswith(f"or write its rows as VALUES. table=file:{folder / 'names'}")


def test_a_clock_is_refused_unless_the_step_allows_it(spark: SparkSession, folder: Path) -> None:
    sql = "SELECT k, v FROM t WHERE at > now() - INTERVAL 1 HOUR"
    assert refusal(spark, job(folder).sql(sql)) == (
        "steps[0].sql: this reads the clock, so a record becomes another row in another mode, and when its epoch runs "
        "again. Use a time that is in the record. Set `clock: allowed` on the step if the time at which the record is "
        "processed is meant. found=now"
    )
    assert is_accepted(spark, job(folder).sql(sql, clock="allowed"))
    again = job(folder).sql("SELECT * FROM t").sql("SELECT *, current_date() AS day FROM previous", clock="allowed")
    assert is_accepted(spark, again.key_by("k").aggregate(n="count(*)"))
    assert refusal(spark, job(folder).key_by("k").aggregate(n="max(at - now())")) == (
        "steps[0].aggregate.n: this reads the clock, so a record becomes another row in another mode, and when its "
        "epoch runs again. Use a time that is in the record. Compute it in a sql step with `clock: allowed` if the "
        "time at which the record is processed is meant. found=now"
    )


@pytest.mark.parametrize("call", ["sum(rand())", "min_by(v, rand())", "count(*) filter (where rand() < 0.5)"])
def test_chance_is_refused_in_every_expression_of_an_aggregate(spark: SparkSession, folder: Path, call: str) -> None:
    message = refusal(spark, job(folder).key_by("k").aggregate(n=call))
    assert message == f"steps[0].aggregate.n: {UNREPEATABLE}rand"


def test_an_aggregate_after_a_step_that_explodes_takes_an_argument(spark: SparkSession, folder: Path) -> None:
    exploded = job(folder).sql("WITH x AS (SELECT k, explode(l) AS v FROM t) SELECT * FROM x")
    assert is_accepted(spark, exploded.sql("SELECT * FROM previous").key_by("k").aggregate(n="sum(v + 1)"))


def test_names_of_nodes_and_functions_in_literals_mean_nothing(spark: SparkSession, folder: Path) -> None:
    texts = "concat(k, '~Sort x', 'call now()', '~Generate', '~Union', 'rand()')"
    steps = job(folder).key_by("k").aggregate(n=f"max({texts})").sql(f"SELECT k, {texts} AS s, n FROM previous")
    assert is_accepted(spark, steps)


@pytest.mark.parametrize(
    ("sql", "cause"),
    [
        ("SELEC k FROM t", "Syntax error at or near 'SELEC'. (line 1, pos 0)"),
        (
            "SELECT kk FROM t",
            (
                "A column, variable, or function parameter with name `kk` cannot be resolved. Did you mean one of the "
                "following? [`at`, `k`, `l`, `v`].; line 1 pos 7"
            ),
        ),
        (
            "SELECT k FROM t; SELECT k FROM t",
            "Syntax error at or near 'SELECT': extra input 'SELECT'. (line 1, pos 17)",
        ),
    ],
)
def test_sql_that_spark_refuses_is_told_in_its_words(spark: SparkSession, folder: Path, sql: str, cause: str) -> None:
    assert refusal(spark, job(folder).sql(sql)) == f"steps[0].sql: Spark refuses this SQL. cause={cause}"


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT uper(k) AS x FROM t", " Did you mean upper?"),
        ("SELECT TIMESTAMP_MILIS(v) AS x FROM t", " Did you mean timestamp_millis?"),
        ("SELECT k, c FROM t, LATERAL explod(l) AS x(c)", " Did you mean explode?"),
        ("SELECT nothing_like_it(k) AS x FROM t", ""),
    ],
)
def test_a_misspelt_function_is_told_with_the_one_that_is_meant(
    spark: SparkSession, folder: Path, sql: str, hint: str
) -> None:
    assert refusal(spark, job(folder).sql(sql)).startswith(f"steps[0].sql: Spark refuses this SQL.{hint} cause=")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "v w",
            "the word after this expression would be a name for it. Remove the word, or correct it. name=w, found=v w",
        ),
        ("v +", "Spark refuses this SQL. cause=Syntax error at or near end of input. (line 1, pos 3)"),
    ],
)
@pytest.mark.parametrize("setting", ["key", "argument", "order", "having", "computed column"])
def test_a_mistake_in_an_expression_is_told_about_its_own_text(
    spark: SparkSession, folder: Path, setting: str, expression: str, said: str
) -> None:
    computed = {"u": expression} if setting == "computed column" else {}
    keyed = job(folder, Source.parquet(folder / "in", schema="k string, v bigint", computed_columns=computed)).key_by(
        "k" if setting != "key" else f"{expression} AS key"
    )
    if setting == "order":
        steps = keyed.top(1, order_by=f"{expression} desc")
    elif setting == "having":
        steps = keyed.aggregate(v="count(*)", having=expression)
    else:
        steps = keyed.aggregate(n=f"max({expression})" if setting == "argument" else "count(*)")
    assert said in refusal(spark, steps)


@pytest.mark.parametrize("setting", ["key", "argument", "computed column"])
def test_a_misspelt_function_is_told_wherever_sql_is(spark: SparkSession, folder: Path, setting: str) -> None:
    computed = {"u": "uper(k)"} if setting == "computed column" else {}
    source = Source.parquet(folder / "in", schema=DDL, event_time="at", computed_columns=computed)
    key, call = "uper(k) AS u" if setting == "key" else "k", "max(uper(k))" if setting == "argument" else "count(*)"
    message = refusal(spark, job(folder, source).key_by(key).aggregate(n=call))
    assert "Spark refuses this SQL. Did you mean upper? cause=" in message


def test_a_table_that_a_step_cannot_read_is_told_with_those_that_it_can(spark: SparkSession, folder: Path) -> None:
    first = job(folder).sql("SELECT * FROM tt")
    prefix = (
        "steps[0].sql: Spark refuses this SQL. This step can read: t. cause=The table or view `tt` cannot be found."
    )
    assert refusal(spark, first).startswith(prefix)
    named = job(folder).sql("SELECT * FROM t", name="all_of_it").sql("SELECT * FROM t")
    prefix = (
        "steps[1].sql: Spark refuses this SQL. This step can read: previous, all_of_it. cause=The table or view `t`"
    )
    assert refusal(spark, named).startswith(prefix)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a' AS k",
        "SELECT k FROM VALUES ('a') AS x(k)",
        "SHOW TABLES",
        "SET spark.sql.ansi.enabled = false",
        "CREATE TABLE refused_table (a INT) USING parquet",
        "CREATE OR REPLACE TEMPORARY VIEW refused_view AS SELECT 1 AS a",
    ],
)
def test_what_is_no_query_over_the_input_is_refused_and_not_run(spark: SparkSession, folder: Path, sql: str) -> None:
    assert refusal(spark, job(folder).sql(sql)) == NO_QUERY
    assert not spark.catalog.tableExists("refused_table")
    assert not spark.catalog.tableExists("refused_view")
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_columns_of_one_name_and_reserved_names_are_refused(spark: SparkSession, folder: Path) -> None:
    twice = job(folder).sql("SELECT k, v AS a, v + 1 AS A FROM t")
    assert refusal(spark, twice) == "steps[0].sql: two columns have one name. Rename one of them with AS. column=a"
    reserved = job(folder).sql("SELECT k, v AS _v FROM t")
    assert refusal(spark, reserved) == (
        "steps[0].sql: names that start with _ are kept for columns such as _op. Rename it with AS. column=_v"
    )


Build = Callable[[Job], Job]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda j: j.key_by("kk").aggregate(n="count(*)"),
            "steps[0].key-by: there is no column kk. Did you mean k? Columns here: k, v, at, l.",
        ),
        (
            lambda j: j.key_by("date(at)").aggregate(n="count(*)"),
            (
                "steps[0].key-by: there is no column date(at). In key-by, an expression has a name, as in `date(at) AS "
                "day`, and several columns are a list. Columns here: k, v, at, l."
            ),
        ),
        (
            lambda j: j.key_by("l").aggregate(n="count(*)"),
            f"steps[0].key-by: {KEY_TYPE}column=l, type=list<element: int64>",
        ),
        (
            lambda j: j.sql("SELECT NULL AS z FROM t").key_by("z").aggregate(n="count(*)"),
            f"steps[1].key-by: {KEY_TYPE}column=z, type=null",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="sum(vv)"),
            (
                "steps[0].aggregate.n: Spark refuses this SQL. cause=A column, variable, or function parameter with "
                "name `vv` cannot be resolved. Did you mean one of the following? [`at`, `k`, `l`, `v`].; line 1 pos 0"
            ),
        ),
        (
            lambda j: j.key_by("k").aggregate(n="sum(k)"),
            (
                "steps[0].aggregate.n: sum needs a number, and its argument is not one. Cast it in a sql step, for "
                "example CAST(x AS DOUBLE). type=string"
            ),
        ),
        (
            lambda j: j.key_by("k").aggregate(n="bool_and(v)"),
            "steps[0].aggregate.n: bool_and needs a boolean, and its argument is not one. type=int64",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="max_by(v, array(map(v, l)))"),
            (
                f"steps[0].aggregate.n: {ARGUMENT_TYPE.replace('max', 'max_by')}"
                "type=list<element: map<int64, list<element: int64>>>"
            ),
        ),
        (
            lambda j: j.key_by("k").aggregate(n="max(at - at)"),
            f"steps[0].aggregate.n: {ARGUMENT_TYPE}type=duration[us]",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="max(sum(v))"),
            (STATEFUL.replace("steps[0].sql", "steps[0].aggregate.n") + ONE_GROUP_BY),
        ),
        (
            lambda j: j.key_by("k").aggregate(n="max(explode(l))"),
            (
                "steps[0].aggregate.n: an argument is one value of a record, and this returns several or none. Put it "
                "in a sql step before the key-by, and aggregate the column that it returns there."
            ),
        ),
        (lambda j: j.sql("SELECT k, v FROM t").key_by("k").aggregate(n="first(v)"), f"steps[1].aggregate.n: {NO_TIME}"),
        (
            lambda j: j.key_by("k").aggregate(n="max(v)").key_by("n").aggregate(m="first(k)"),
            f"steps[1].aggregate.m: {NO_TIME}",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT n FROM previous"),
            (
                "steps[1].sql: the sql after the last key-by drops its key, so a changed row could not be found again "
                "in the output. Select the key columns too, or name columns that identify a row in the `key` of the "
                "output. missing=k"
            ),
        ),
        (
            lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT upper(k) AS k, n FROM previous"),
            f"{KEY_CHANGED}k",
        ),
        (
            lambda j: j.key_by("k", "v").aggregate(n="count(*)").sql("SELECT v AS k, v, n FROM previous"),
            f"{KEY_CHANGED}k",
        ),
        (
            lambda j: (
                j.key_by("k", "v")
                .aggregate(n="count(*)")
                .sql("SELECT * FROM previous UNION ALL SELECT k, v + 1, n FROM previous")
            ),
            f"{KEY_CHANGED}k, v",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT k, n, rand() AS r FROM previous"),
            f"steps[1].sql: {UNREPEATABLE}rand",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT k, now() AS r FROM previous", clock="allowed"),
            f"steps[1].sql: {CLOCK_AFTER_KEY}now",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="collect_list(v, 9)").sql("SELECT k, explode(n) AS x FROM previous"),
            f"{SEVERAL_ROWS}explode",
        ),
        (
            lambda j: (
                j.key_by("k")
                .aggregate(n="count(*)")
                .sql("SELECT k, x FROM previous JOIN VALUES (1), (1) AS o(x) ON n = x")
            ),
            f"{SEVERAL_ROWS}Inner join",
        ),
        (
            lambda j: j.key_by("k").top(2, order_by="l"),
            (
                "steps[0].top: rows cannot be ordered by values of this type. Order them by a field or an element of "
                "it, or cast it, as with to_json. column=`l`, type=list<element: int64>"
            ),
        ),
        (
            lambda j: j.sql("SELECT k, v, INTERVAL 1 SECOND AS i FROM t").key_by("k").top(2, order_by="v"),
            (
                "steps[1].top: the step stores the columns of its input, and cannot store this type. Leave the column "
                "out in a sql step before, or cast it there, as with CAST(x AS STRING). column=i, type=duration[us]"
            ),
        ),
        (
            lambda j: j.sql("SELECT k, v AS Rank FROM t").key_by("k").top(2, order_by="rank"),
            ("steps[1].top: the step emits a column of this name. Rename yours in a sql step before. column=Rank"),
        ),
        (
            lambda j: j.sql("SELECT k, v FROM t").key_by("k").top(2, order_by="vv desc"),
            (
                "steps[1].top.order-by: Spark refuses this SQL. cause=A column, variable, or function parameter with "
                "name `vv` cannot be resolved. Did you mean one of the following? [`k`, `v`].; line 1 pos 0"
            ),
        ),
        (
            lambda j: j.sql("SELECT k, v FROM t").key_by("k").top(2, order_by="rand()"),
            f"steps[1].top.order-by: {UNREPEATABLE}rand",
        ),
        (
            lambda j: j.sql("SELECT k, v FROM t").key_by("k").deduplicate(keep="first"),
            (
                "steps[1].deduplicate: it goes by event time, and this step's input has none. Set `event-time` on "
                "every source, or on the process step before this one, and keep that column in the sql between."
            ),
        ),
        (
            lambda j: j.sql("SELECT k, v, at FROM t").key_by("k").deduplicate(keep="last", tie_break="vv"),
            "steps[1].deduplicate.tie-break: there is no column vv. Did you mean v? Columns here: k, v, at.",
        ),
        (
            lambda j: j.key_by("k").aggregate(n="max(v)").key_by("n").aggregate(m="max(uuid())"),
            f"steps[1].aggregate.m: {UNREPEATABLE}uuid",
        ),
    ],
)
def test_a_keyed_step_that_cannot_be_right_is_refused(
    spark: SparkSession, folder: Path, build: Build, message: str
) -> None:
    assert refusal(spark, build(job(folder))) == message


@pytest.mark.parametrize(
    "build",
    [
        lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT n * 2 AS twice, k FROM previous WHERE n > 1"),
        lambda j: j.key_by("K", "V").aggregate(n="count(*)").sql("SELECT * FROM previous"),
        lambda j: j.key_by("k").aggregate(n="count(*)").sql("WITH x AS (SELECT * FROM previous) SELECT x.k, n FROM x"),
        lambda j: (
            j.key_by("k").aggregate(n="count(*)").sql("SELECT * FROM previous").sql("SELECT k, -n AS n FROM previous")
        ),
        lambda j: j.key_by("k").aggregate(s="sum(CASE WHEN v > 0 THEN v * 2 ELSE 0 END)", c="count(l)"),
        lambda j: (
            j.key_by("k")
            .aggregate(n="count(*)")
            .sql("SELECT k, (SELECT name FROM VALUES (1, 'one') AS o(x, name) WHERE x = n) AS name FROM previous")
        ),
        lambda j: (
            j.key_by("k")
            .aggregate(n="count(*)")
            .sql("SELECT * FROM previous WHERE n IN (SELECT * FROM VALUES (1), (2))")
        ),
        lambda j: j.key_by("k").aggregate(n="count(*)").sql("SELECT k, x FROM previous, LATERAL (SELECT n + 1 AS x)"),
        lambda j: (
            j.sql("SELECT k, v FROM t")
            .key_by("K")
            .top(2, order_by=["abs(V) desc", "k"])
            .sql("SELECT rank, K, upper(k) AS b FROM previous")
        ),
        lambda j: (
            j.sql("SELECT k, v, at FROM t")
            .key_by("k")
            .deduplicate(keep="first", tie_break="V")
            .sql("SELECT v, explode(array(1, 2)) AS x FROM previous")
        ),
    ],
)
def test_a_keyed_step_with_sql_around_it_is_accepted(spark: SparkSession, folder: Path, build: Build) -> None:
    assert is_accepted(spark, build(job(folder)))


@pytest.mark.parametrize(
    ("ddl", "cause"),
    [
        ("k strin, v bigint", 'Unsupported data type "STRIN". (line 1, pos 2)'),
        ("k string v bigint", "Syntax error at or near 'v'. (line 1, pos 9)"),
    ],
)
def test_a_schema_that_is_no_ddl_is_refused(spark: SparkSession, folder: Path, ddl: str, cause: str) -> None:
    steps = job(folder, Source.json(folder / "in", schema=ddl)).key_by("k").aggregate(n="count(*)")
    assert refusal(spark, steps) == (
        "sources.t: the schema is not valid Spark DDL. Write columns as `name type, name type`. cause=" + cause
    )


@pytest.mark.parametrize(
    ("ddl", "column"),
    [
        ("k string, v bigint, K string", "K"),
        ("k string, s struct<a: int, b: int, a: int>", "a"),
        ("k string, s array<map<string, struct<a: int, A: int>>>", "A"),
    ],
)
@pytest.mark.parametrize("source", [Source.json, Source.csv, Source.parquet])
def test_a_schema_with_two_columns_of_one_name_is_refused(
    spark: SparkSession, folder: Path, source: Callable[..., SourceSpec], ddl: str, column: str
) -> None:
    steps = job(folder, source(folder / "in", schema=ddl)).key_by("k").aggregate(n="count(*)")
    assert refusal(spark, steps) == (
        "sources.t: the schema has two columns of one name (case does not count). Rename one. column=" + column
    )


def test_a_missing_path_is_refused(spark: SparkSession, folder: Path) -> None:
    steps = job(folder, Source.parquet(folder / "nowhere", schema=DDL)).key_by("k").aggregate(n="count(*)")
    assert refusal(spark, steps) == (
        f"sources.t: there is no such file or directory. Create it, or correct the path. path={folder / 'nowhere'}"
    )


def test_columns_that_cannot_be_read_from_files_are_refused(spark: SparkSession, folder: Path) -> None:
    (folder / "empty").mkdir()
    steps = job(folder, Source.parquet(folder / "empty")).key_by("k").aggregate(n="count(*)")
    assert refusal(spark, steps) == (
        "sources.t: the columns cannot be read from the files, because there are none yet or they are not what the "
        "format says. Add `schema` to the source, or put a file there. cause=Unable to infer schema for Parquet. It "
        "must be specified manually."
    )


def test_an_event_time_that_is_not_there_or_is_no_time_is_refused(spark: SparkSession, folder: Path) -> None:
    missing = job(folder, Source.parquet(folder / "in", schema=DDL, event_time="att"))
    assert refusal(spark, missing.sql("SELECT * FROM t")) == (
        "sources.t.event-time: there is no column att. Did you mean at? Columns here: k, v, at, l."
    )
    number = job(folder, Source.parquet(folder / "in", schema=DDL, event_time="v"))
    assert refusal(spark, number.sql("SELECT * FROM t")) == (
        "sources.t.event-time: event time must be a timestamp. Give the column the type timestamp where its type is "
        "declared. Of a number in a source, computed-columns make one, as in `at: timestamp_millis(ts)` for "
        "milliseconds since 1970. column=v, type=bigint"
    )


def test_columns_are_read_from_parquet_files_without_a_schema(spark: SparkSession, folder: Path) -> None:
    write_parquet(folder / "typed", "a.parquet", pa.table({"k": ["a"], "n": [1]}))
    assert is_accepted(spark, job(folder, Source.parquet(folder / "typed")).key_by("k").aggregate(s="sum(n)"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("spark.sql.session.timezone", "spark.sql.session.timeZone"),
        ("spark.sql.shufle.partitions", "spark.sql.shuffle.partitions"),
        ("spark.driver.memry", "spark.driver.memory"),
        ("spark.maste", "spark.master"),
        *((known, None) for known in ("spark.executor.memory", "spark.local.dir", "spark.hadoop.fs.s3a.endpoint")),
        *((unknown, None) for unknown in ("spark.sql.catalog.lake", "spark.databricks.delta.snapshotPartitions")),
    ],
)
def test_a_misspelt_setting_of_spark_is_refused(
    spark: SparkSession, folder: Path, written: str, meant: str | None
) -> None:
    (folder / "in").mkdir(exist_ok=True)
    source = Source.parquet(folder / "in", schema=DDL)
    made = Job("refused", sources={"t": source}, checkpoint_dir=folder / "checkpoints", spark={**SPARK, written: "1"})
    steps = made.sql("SELECT * FROM t")
    if meant is None:
        assert is_accepted(spark, steps)
        return
    said = f"{written}: Spark has no setting of this name, and ignores it. Did you mean {meant}?"
    assert refusal(spark, steps) == said


def test_all_wrong_computed_columns_of_a_source_are_told(spark: SparkSession, folder: Path) -> None:
    computed = {"a": "uper(k)", "V": "v", "b": "v + 1", "c": "v +"}
    source = Source.parquet(folder / "in", schema=DDL, computed_columns=computed)
    message = refusal(spark, job(folder, source).sql("SELECT k FROM t"))
    starts = [line.partition(":")[0] for line in message.splitlines()]
    assert starts == [f"sources.t.computed-columns.{name}" for name in ("a", "V", "c")]


def test_a_job_file_is_named_with_its_line(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir(exist_ok=True)
    file = write_text(
        folder,
        "job.yaml",
        f"""\
name: lines
execution: {{runtime-mode: mixed, checkpointing.dir: ./checkpoints}}
sources:
  t: {{format: json, path: in, schema: "{DDL}"}}
steps:
  - sql: SELECT k, v FROM t
  - key-by: [k]
    aggregate:
      n: count(*)
      s: sum(k)
sink: {{format: console}}
""",
    )
    loaded = Job.from_file(file)
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, loaded.spec, loaded.where)
    assert str(caught.value) == (
        f"{file}:10: steps[1].aggregate.s: sum needs a number, and its argument is not one. Cast it in a sql step, for "
        "example CAST(x AS DOUBLE). type=string"
    )


def test_nothing_is_left_behind_in_the_session(spark: SparkSession, folder: Path) -> None:
    refusal(spark, job(folder).sql("SELECT DISTINCT k FROM t ORDER BY k"))
    assert is_accepted(spark, job(folder).sql("SELECT * FROM t").key_by("k").aggregate(n="count(*)"))
    assert not spark.catalog.listTables()


def test_a_refused_query_is_not_printed_by_spark_itself(
    spark: SparkSession, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refusal(spark, job(folder).sql("SELECT kk FROM t"))
    assert capfd.readouterr().err == ""


def test_mistakes_that_do_not_follow_from_each_other_are_one_report(spark: SparkSession, folder: Path) -> None:
    typo = Source.json(folder / "in", schema="a strng")
    time_typo = Source.parquet(folder / "in", schema=DDL, event_time="att")
    elsewhere = Source.parquet(folder / "in", schema=DDL, event_time="v")
    lines = refusal(spark, job(folder, typo, u=time_typo, w=elsewhere).sql("SELECT * FROM t")).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "sources.t",
        "sources.u.event-time",
        "sources.w.event-time",
    ]
    lines = refusal(spark, job(folder, time_typo).sql("SELECT nothing FROM t")).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["sources.t.event-time", "steps[0].sql"]


def test_every_mistake_of_a_step_is_told_and_its_declared_output_is_checked_on(
    spark: SparkSession, folder: Path
) -> None:
    steps = (
        job(folder)
        .key_by("nokey", "l")
        .process("nowhere:Function", output="a strng")
        .sql("SELECT (")
        .key_by("k")
        .aggregate(n="sum(v +)", m="count(*)")
    )
    assert [line.partition(": ")[0] for line in refusal(spark, steps).splitlines()] == [
        "steps[0].key-by",
        "steps[0].key-by",
        "steps[0].output",
        "steps[0].process",
        "steps[1].sql",
        "steps[2].aggregate.n",
    ]
    declared = job(folder).map("nowhere:Map", output="a string").sql("SELECT b FROM previous")
    lines = refusal(spark, declared).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["steps[0].map", "steps[1].sql"]
    assert "`b`" in lines[1]
    assert "steps[1]" not in refusal(
        spark, job(folder).map("nowhere:Map", output="a string").sql("SELECT a FROM previous")
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("upper(nothing) AS u", r"key-by.*nothing"),
        ("v AS k", r"key-by: the input has a column of this name\. Choose another\. found=k$"),
        ("rand() AS r", r"key-by: this has another value each time it is computed"),
        ("explode(array(v)) AS e", r"key-by: an argument is one value of a record"),
        ("map('a', v) AS m", r"key-by"),
    ],
)
def test_a_key_that_cannot_be_computed_once_per_record_is_refused(
    folder: Path, spark: SparkSession, key: str, message: str
) -> None:
    source = Source.parquet(folder / "in", schema=DDL)
    assert re.search(message, refusal(spark, job(folder, source).key_by(key).aggregate(n="count(*)")))


@pytest.mark.parametrize("name", [None, "odd"])
def test_two_steps_that_only_their_sql_tells_apart_need_names(
    spark: SparkSession, folder: Path, name: str | None
) -> None:
    """Their numbers follow the order in which a union names them, so its change would exchange their state."""
    start = job(folder, other=Source.parquet(folder / "in", schema=DDL))

    def counted(source: str, condition: str, name: str | None = None) -> Stream:
        rows = start.source(source).sql(f"SELECT k FROM {source} WHERE {condition}")
        return rows.key_by("k", name=name).aggregate(n="count(*)")

    even, odd, other = counted("t", "v % 2 = 0"), counted("t", "v % 2 = 1", name), counted("other", "v % 2 = 1")
    joined = even.union(odd, other).key_by("k").aggregate(n="sum(n)")
    complete = start.output("all", joined, Sink.parquet("out"))
    if name is not None:
        assert analyse(spark, complete.spec, complete.where).plan.results
        return
    with pytest.raises(InvalidJobError, match=r"Give each a `name`.* steps=aggregate_1, aggregate_2$"):
        analyse(spark, complete.spec, complete.where)
