"""A project of Spark's declarative pipelines: in every mode, its tables have the rows that plain Python computes."""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import Output
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from mixedmode.config import load_job, pipeline_process
from mixedmode.driver.pipeline import pipeline_values
from mixedmode.errors import InvalidJobError
from tests.cli.shell import command
from tests.driver.shop import NAMES, story, tell, write_countries
from tests.harness import Row, output_rows, write_json, write_text

pytestmark = pytest.mark.spark

SPEC = """\
name: shop
storage: storage
configuration:
  spark.master: local[2]
  parallelism: "2"
  pipeline.max-parallelism: "16"
libraries:
  - glob: {include: tables/**}
  - glob: {include: late.py}
"""
#: the tables in an order in which none comes after those that it reads
TABLES = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F

FOLDER = "{folder}"
COLUMNS = "customer STRING, country STRING, amount BIGINT, at TIMESTAMP"


@dp.materialized_view(comment="of a table that is below")
def totals():
    return spark.read.table("moves").groupBy("customer").agg(F.sum("amount").alias("total"))


dp.create_streaming_table("moves", format="json", partition_cols=["kind"])


@dp.append_flow(target="Moves")
def bought():
    return spark.readStream.table("orders").select("customer", "amount", F.lit("bought").alias("kind"))


@dp.append_flow(target="moves", name="returned")
def of_refunds():
    refunds = spark.readStream.schema("customer STRING, amount BIGINT").json(FOLDER + "/refunds")
    return refunds.select("customer", (-F.col("amount")).alias("amount"), F.lit("returned").alias("kind"))


@dp.table(table_properties={{"path": "storage/orders"}}, schema=COLUMNS)
def orders():
    columns = "customer STRING, country STRING, amount BIGINT, ts BIGINT"
    records = spark.readStream.schema(columns).json(FOLDER + "/orders")
    timed = records.select("customer", "country", "amount", F.timestamp_millis("ts").alias("at"))
    return timed.withWatermark("at", "1 hour")


@dp.temporary_view
def countries():
    return spark.read.schema("code STRING, name STRING").csv(FOLDER + "/countries", header=True)
"""
LATE = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F

FOLDER = "{folder}"


@dp.temporary_view
def named():
    return spark.readStream.table("orders").join(spark.read.table("countries"), F.col("country") == F.col("code"))


@dp.table
def hours():
    timed = spark.readStream.table("named").withWatermark("at", "1 hour")
    return timed.groupBy("name", F.window("at", "1 hour")).count().select("name", "window.start", "count")


@dp.table
def days():
    return spark.readStream.table("copies").withWatermark("moment", "1 day").groupBy(
        F.window("moment", "1 day")
    ).count().select("window.start", "count")


@dp.temporary_view
def copies():
    return spark.readStream.table("raw")


@dp.temporary_view
def raw():
    records = spark.readStream.schema("customer STRING, amount BIGINT, ts BIGINT").json(FOLDER + "/orders")
    return records.select("*", F.timestamp_millis("ts").alias("moment"))


@dp.table
def few_hours():
    return spark.readStream.table("few").groupBy(F.window("at", "1 hour")).count().select("window.start", "count")


@dp.table
def dear():
    return spark.readStream.table("cheap").where("amount > 4")
"""
CHEAP = """\
CREATE TEMPORARY VIEW few AS SELECT at, amount FROM STREAM orders WHERE amount < 3;
CREATE STREAMING TABLE cheap AS SELECT customer, amount FROM STREAM orders WHERE amount < 10;
CREATE MATERIALIZED VIEW sizes USING json AS SELECT total % 10 AS digit, count(*) AS n FROM Totals t
  WHERE EXISTS (SELECT 1 FROM cheap c WHERE c.customer = t.customer AND c.amount = 9) GROUP BY ALL;
"""


def in_this_process(place: str, overrides: list[str]) -> dict[str, Any]:
    """The answer of the process that reads a project."""
    try:
        return pipeline_values(Path(place), place, overrides)
    except InvalidJobError as error:
        return {"error": "InvalidJobError", "text": str(error)}


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The spec file of the project above."""
    monkeypatch.setattr(pipeline_process, "ask", in_this_process)
    for name in ("orders", "refunds"):
        (tmp_path / name).mkdir()
    write_text(tmp_path / "tables", "tables.py", TABLES.format(folder=tmp_path))
    write_text(tmp_path / "tables" / "more", "cheap.sql", CHEAP)
    write_text(tmp_path, "late.py", LATE.format(folder=tmp_path))
    write_countries(tmp_path)
    return write_text(tmp_path, "spark-pipeline.yml", SPEC)


def expected(orders: list[Row], refunds: list[Row]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of each table but `hours`, which has those of windows that end at most an hour before the newest."""
    totals: dict[str, int] = defaultdict(int)
    moves = [(row["customer"], row["amount"], "bought") for row in orders]
    moves += [(row["customer"], -row["amount"], "returned") for row in refunds]
    for customer, amount, _ in moves:
        totals[customer] += amount
    found = {row["customer"] for row in orders if row["amount"] == 9}
    kept = (total for customer, total in totals.items() if customer in found)
    digits = Counter(abs(total) % 10 * (1 if total >= 0 else -1) for total in kept)
    hours: dict[tuple[str, datetime], int] = defaultdict(int)
    days: dict[datetime, int] = defaultdict(int)
    few: dict[datetime, int] = defaultdict(int)
    for row in orders:
        hour = datetime.fromtimestamp(row["ts"] / 1000, UTC).replace(minute=0, second=0, microsecond=0)
        days[hour.replace(hour=0)] += 1
        few[hour] += row["amount"] < 3
        if row["country"] in NAMES:
            hours[NAMES[row["country"]], hour] += 1
    cheap = [(row["customer"], row["amount"]) for row in orders if row["amount"] < 10]
    return {
        "orders": Counter(
            (row["customer"], row["country"], row["amount"], datetime.fromtimestamp(row["ts"] / 1000, UTC))
            for row in orders
        ),
        "moves": Counter(moves),
        "totals": Counter(totals.items()),
        "sizes": Counter(digits.items()),
        "hours": Counter((*key, count) for key, count in hours.items()),
        "days": Counter(days.items()),
        "few_hours": Counter((hour, count) for hour, count in few.items() if count),
        "cheap": Counter(cheap),
        "dear": Counter(row for row in cheap if row[1] > 4),
    }


def rows_of(folder: Path, name: str) -> Counter[tuple[Any, ...]]:
    """The rows of a table of the project in a folder."""
    place = folder / "storage" / ("orders" if name == "orders" else f"tables/{name}")
    return Counter(tuple(value for key, value in row.items() if not key.startswith("_")) for row in output_rows(place))


class BatchRegistry(GraphElementRegistry):
    """Keeps functions by the names of their tables."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Callable[[], DataFrame]]] = defaultdict(list)

    @override
    def register_output(self, output: Output) -> None:
        pass

    @override
    def register_flow(self, flow: Flow) -> None:
        self.functions[flow.target.lower()].append(flow.func)

    @override
    def register_auto_cdc_flow(self, flow: Any) -> None:
        raise AssertionError(flow)

    @override
    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError(sql_text)


class Batch:
    """A session whose streams are read as they are now."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, "read" if name == "readStream" else name)


def batch_answers(spark: SparkSession, files: list[Path]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of all tables of Python files, whose functions Spark runs as batch queries, without a pipeline."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    registry = BatchRegistry()
    with graph_element_registration_context(registry):
        for file in files:
            exec(compile(file.read_text(), file, "exec"), {"spark": Batch(session)})
    asked = ["countries", "orders", "raw", "copies", "named", "moves", "totals", "hours", "days"]
    found = {}
    for name in asked:
        rows = [function() for function in registry.functions[name]]
        table = functools.reduce(DataFrame.unionByName, rows)
        table.createOrReplaceTempView(name)
        found[name] = Counter(map(tuple, table.collect()))
    return found


def with_zone(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """The same rows, of which times know that they are in UTC; PySpark returns times of this machine's zone."""
    return Counter(
        tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)
        for row in rows.elements()
    )


@pytest.mark.parametrize("mode", ["batch", "mixed", pytest.param("streaming", marks=pytest.mark.soak)])
def test_the_tables_of_a_project_are_those_of_its_records(
    spark: SparkSession, tmp_path: Path, project: Path, mode: str
) -> None:
    orders, refunds = story(seed=len(mode), amounts=20)
    overrides = [f"execution.runtime-mode={mode}"]
    tell(spark, project, overrides, orders, refunds)

    wanted = expected(list(chain.from_iterable(orders)), list(chain.from_iterable(refunds)))
    if mode != "batch":  # batch ends the input, so all windows are emitted
        newest = max(at for *_, at in wanted["orders"])
        hour = timedelta(hours=1)
        for name, long in (("hours", hour), ("few_hours", hour), ("days", timedelta(days=1))):
            wanted[name] = Counter(row for row in wanted[name] if row[-2] + long <= newest - long)
    for name, rows in wanted.items():
        assert rows_of(tmp_path, name) == rows, name
    if mode == "batch":
        answers = batch_answers(spark, [tmp_path / "tables" / "tables.py", tmp_path / "late.py"])
        for name in ("orders", "moves", "totals", "hours", "days"):
            assert rows_of(tmp_path, name) == with_zone(answers[name]), name


HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F
records = spark.readStream.schema("k STRING, v BIGINT, at TIMESTAMP").json("in")
"""
#: {definitions, below HEAD: (the line of HEAD's file, what the message says)}
REFUSED = {
    "@dp.table\ndef t():\n    return records.nope": (6, "table t: Spark refuses this. Attribute `nope`"),
    "@dp.table\ndef t():\n    return records.select('w')": (6, "table t: ", "with name `w` cannot be resolved"),
    "raise KeyError('x')": (4, "the code raises an exception. Correct it. KeyError: 'x'"),
    "import sys\nsys.exit(3)": (5, "the code raises an exception. Correct it. SystemExit: 3"),
    "def f(:": (4, "this is not Python. Correct it. cause=invalid syntax"),
    "@dp.table\ndef t():\n    return 3": (4, "table t: the function returns no DataFrame. Return one. found=int"),
    "@dp.table\ndef t():\n    return spark.read.schema('k INT').json('in')": (4, "table t: the query is no stream."),
    "@dp.table\ndef t():\n    return records.where(f'v > {records.count()}')": (6, "runs none", "found=count"),
    "@dp.table\ndef t():\n    records.writeStream.start()": (6, "runs none", "found=writeStream"),
    "@dp.table\ndef a():\n    return spark.readStream.table('b')\n@dp.table\ndef b():\n"
    "    return spark.readStream.table('a')": (4, "table a: these queries read each other", "queries=a, b"),
    "@dp.table\ndef a():\n    return records\n@dp.table\ndef b():\n"
    "    return records.join(spark.read.table('a').select('k'), 'k')": (7, "table b: this table changes", "found=a"),
    "@dp.table\ndef a():\n    return spark.readStream.table('nowhere')": (
        6,
        "table a: ",
        "the pipeline has no table or view of this name.",
        "found=nowhere",
    ),
    "@dp.materialized_view\ndef m():\n    return spark.read.schema('k INT').json('in')": (4, "view m: a batch query"),
    "@dp.table\ndef a():\n    return records.withWatermark('at', '1 hour')\n@dp.materialized_view\ndef m():\n"
    "    return spark.read.table('a').groupBy(F.window('at', '1 day')).count()": (
        7,
        "materialized view m: ",
        "Make the query a @dp.table",
        "found=window in a materialized view",
    ),
    "@dp.table\ndef a():\n    return records.where('v > 1')\n@dp.table\ndef b():\n    return (spark.readStream."
    "table('a').withWatermark('at', '1 hour').groupBy(F.window('at', '1 day')).count())": (
        4,
        "table a: ",
        "call withWatermark before this part. found=Filter The watermark is that of table b.",
    ),
    "spark.conf.set('spark.sql.ansi.enabled', 'false')": (4, "the session is that of the whole pipeline.", "found=set"),
    "@dp.table\ndef a():\n    return records\n@dp.table\ndef a_rows_1():\n    return records\n@dp.table\ndef b():\n"
    "    return records.join(records.groupBy('k').count(), 'k')\n@dp.table\ndef b_rows_1():\n    return records": (
        10,
        "a part of another query gets this name.",
        "found=b_rows_1",
    ),
    "@dp.table(schema='k STRNG')\ndef t():\n    return records": (4, "table t: Spark refuses the schema", "STRNG"),
    "@dp.table\ndef t():\n    return spark.readStream.format('nope').load()": (6, "table t: Spark", "USING kafka"),
    "@dp.table\ndef t():\n    return spark.readStream.format('rate').load()": (4, "table t: the stream", "USING kafka"),
    "dp.create_sink('s', 'kafka', {})": (4, "a sink is not taken.", "sink=s"),
    "@dp.table(spark_conf={'a': 'b'})\ndef t():\n    return records": (4, "settings belong to the whole job", "flow=t"),
    "@dp.table(name='a.b')\ndef t():\n    return records": (4, "a name has letters, digits and _ here", "found=a.b"),
    "@dp.table(cluster_by=['k'])\ndef t():\n    return records": (4, "cluster_by is not taken."),
    "@dp.table(schema='k STRING')\ndef t():\n    return records": (
        4,
        "other columns than its query",
        "struct<k:string>",
    ),
    "@dp.append_flow(target='t')\ndef f():\n    return records": (
        4,
        "flow f: no Python file creates a table",
        "found=t",
    ),
    "dp.create_streaming_table('t')": (4, "nothing writes to this table."),
    "@dp.table\ndef t():\n    return records\n@dp.append_flow(target='t')\ndef f():\n    return records": (
        7,
        "flow f: this table has a query of its own.",
    ),
    "@dp.table\ndef t():\n    return records\n@dp.table\ndef T():\n    return records": (7, "has this name", "found=T"),
    "@dp.table\ndef t():\n    return records.select(F.udf(lambda one: one)('k'))": (4, "table t: ", "Write the job as"),
    "@dp.table\ndef t():\n    return records.orderBy('v')": (4, "table t: a job cannot take over", "found=Sort"),
    "x = 1": (1, "the project has no table."),
}


@pytest.mark.parametrize("definitions", REFUSED)
def test_what_a_job_cannot_be_is_refused_with_its_line(
    spark: SparkSession,
    tmp_path: Path,
    project: Path,
    definitions: str,
) -> None:
    (tmp_path / "in").mkdir()
    text = HEAD.replace('"in"', f"'{tmp_path}/in'") + definitions.replace("'in'", f"'{tmp_path}/in'")
    file = write_text(tmp_path, "job.py", text)
    line, *parts = REFUSED[definitions]
    with pytest.raises(InvalidJobError) as raised:
        load_job(file, ["execution.runtime-mode=batch"])
    message = str(raised.value)
    assert message.startswith(f"{file}:{line}: ")
    assert "Traceback" not in message
    for part in parts:
        assert str(part) in message


@pytest.mark.parametrize(
    ("text", "line", "mistake"),
    [
        (SPEC.replace("storage: storage\n", ""), 1, "a project has a `storage`. Add it"),
        (SPEC + "catalog: main\n", 10, "A job has no catalog: a table is the folder of its `path`."),
        (SPEC + "librarys: []\n", 10, "a project does not have this key."),
        (SPEC.replace("late.py", "la*.py"), 9, "a pattern is a file, or a folder with all files below it"),
        (SPEC.replace("late.py", "nowhere.py"), 9, "there is no such file."),
        (
            SPEC.replace("late.py", "countries/**"),
            9,
            "a file of tables is one of Python or SQL. Move others elsewhere.",
        ),
        (
            SPEC.replace('"2"', "2\n  parallelism: 3"),
            6,
            "parallelism is given twice, first at {folder}/spark-pipeline.yml:5.",
        ),
        (SPEC.replace('"2"', "many"), 5, "parallelism must be a whole number, not text. found=many"),
    ],
)
def test_a_mistake_in_the_spec_file_has_its_line(project: Path, text: str, line: int, mistake: str) -> None:
    project.write_text(text)
    with pytest.raises(InvalidJobError) as raised:
        load_job(project)
    assert f"{project}:{line}: {mistake.format(folder=project.parent)}" in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "line", "mistake"),
    [
        (
            "CREATE STREAMING TABLE t AS\n  SELECT o.amount FROM STREAM orders o, STREAM countries c",
            2,
            "as a view with",
        ),
        ("CREATE STREAMING TABLE t AS\n  SELECT amount FROM orders", 2, "Write STREAM orders."),
        ("CREATE STREAMING TABLE t AS\n  SELECT amount FROM STREAM order", 2, "Did you mean orders?"),
        ("CREATE STREAMING TABLE moves AS SELECT amount FROM STREAM orders", 1, "too. Choose another. found=moves"),
        (
            "CREATE MATERIALIZED VIEW t AS\n  SELECT amount FROM STREAM orders",
            2,
            "reads tables as a whole. Remove STREAM",
        ),
        ("CREATE MATERIALIZED VIEW t AS SELECT w FROM orders", 1, "materialized view t: Spark refuses this."),
        ("CREATE MATERIALIZED VIEW t", 1, "a materialized view has a query."),
        ("CREATE STREAMING TABLE cheap AS SELECT nope FROM STREAM orders", 1, "query cheap: "),
    ],
)
def test_a_mistake_in_a_sql_file_of_a_project_has_its_line(
    project: Path, tmp_path: Path, sql: str, line: int, mistake: str
) -> None:
    file = tmp_path / "tables" / "more" / "cheap.sql"
    others = CHEAP if " cheap " not in sql else "".join(one for one in CHEAP.splitlines(True) if " cheap " not in one)
    file.write_text(f"{sql};\n{others}")
    with pytest.raises(InvalidJobError) as raised:
        load_job(project)
    found = str(raised.value).split("\n")
    place = re.compile(rf"{file}:{line}: |{tmp_path}/tables/tables.py:\d+: .*found=moves")
    assert any(place.match(one) and mistake in one for one in found), found


def test_the_example_of_the_document_runs_with_the_functions_in_another_process(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = Path(__file__).parents[2].joinpath("docs", "pipelines.md").read_text()
    for name, block in re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        write_text((tmp_path / name).parent, Path(name).name, block)
    functions = tmp_path / "tables" / "orders.py"
    with functions.open("a") as more:
        more.write("\n\nprint('a module has been imported')\n")
    write_text(tmp_path, "yaml.py", "raise AssertionError('a module of the project replaces one of ours')\n")
    write_text(tmp_path / "data" / "countries", "c.csv", "code,name\nat,Austria\n")
    orders = [("ann", 5, 0), ("bob", 4, 30), ("ann", 7, 90)]
    rows = [{"customer": one, "country": "at", "amount": amount, "ts": at * 60_000} for one, amount, at in orders]
    write_json(tmp_path / "data" / "orders", "1.json", rows)

    file, batch = tmp_path / "spark-pipeline.yml", ("--set", "execution.runtime-mode=batch")
    assert command("run", file, *batch).exit_code == 0
    assert "a module has been imported" in capfd.readouterr().err
    shown = command("table", tmp_path / "run" / "tables" / "totals").output
    (printed,) = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert [line.split() for line in printed.splitlines()] == [line.split() for line in shown.splitlines()][:3]
    hours = {
        (row["name"], row["hour"].hour, row["total"]) for row in output_rows(tmp_path / "run" / "tables" / "hours")
    }
    assert hours == {("Austria", 0, 9), ("Austria", 1, 7)}

    functions.write_text(functions.read_text().replace('"data/orders"', '"data/order"'))
    told = command("validate", file, *batch)
    assert told.exit_code == 2
    assert f"{functions}:13: table orders: Spark refuses this. Path does not exist" in told.output
