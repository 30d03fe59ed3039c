"""SQL files: they mean a job file, whatever the order of their statements; and each mistake is told with its line."""

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import load_job
from mixedmode.config.reader import document_of
from mixedmode.config.sql_file import sql_tree
from mixedmode.errors import InvalidJobError

WRITE = Callable[[str], Path]
DIR = "SET execution.checkpointing.dir = run/checkpoints"
ORDERS = "CREATE TEMPORARY VIEW orders (customer STRING, amount BIGINT) USING json OPTIONS (path 'data/orders')"
TOTALS = (
    "CREATE STREAMING TABLE totals USING parquet TBLPROPERTIES ('path' = 'run/totals') "
    "AS SELECT customer, sum(amount) AS total FROM STREAM orders GROUP BY customer"
)


@pytest.fixture
def write(tmp_path: Path) -> WRITE:
    def written(text: str) -> Path:
        path = tmp_path / "orders.sql"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def document(path: Path, *overrides: str) -> dict[str, Any]:
    """The job of a file as a job file has it; paths begin with the folder."""
    found: dict[str, Any] = load_job(path, overrides).spec.as_document()
    return found


def mistakes(path: Path) -> list[str]:
    with pytest.raises(InvalidJobError) as caught:
        load_job(path)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_a_sql_file_means_a_job_file(write: WRITE, tmp_path: Path) -> None:
    yaml = tmp_path / "job.yaml"
    yaml.write_text(
        """\
name: orders
execution.checkpointing.dir: run/checkpoints
sources:
  orders: {format: json, schema: "customer STRING, amount BIGINT", path: data/orders}
steps:
  - {name: totals, from: [orders], sql: "SELECT customer, sum(amount) AS total FROM        orders GROUP BY customer"}
outputs:
  totals: {from: totals, format: parquet, path: run/totals}
""",
        encoding="utf-8",
    )
    assert load_job(write(f"{DIR};\n{ORDERS};\n{TOTALS};\n")).spec == load_job(yaml).spec


def test_the_order_of_statements_does_not_matter(write: WRITE) -> None:
    large = "CREATE TEMPORARY VIEW large AS SELECT * FROM STREAM orders WHERE amount > 9"
    counts = "CREATE STREAMING TABLE n TBLPROPERTIES (path 'run/n') AS SELECT count(*) AS n FROM large"
    found = [document(write(";\n".join(order))) for order in permutations([DIR, ORDERS, large, counts])]
    assert all(one == found[0] for one in found)
    assert [step["name"] for step in found[0]["steps"]] == ["large", "n"]
    assert found[0]["steps"][1]["from"] == ["large"]


def test_set_says_any_setting_and_the_command_line_replaces_it(write: WRITE) -> None:
    text = (
        "SET name = 'all orders'; SET `execution.runtime-mode` = streaming; set parallelism = 3;\n"
        "SET spark.sql.session.timeZone = Europe/Vienna; SET sources.orders.watermark.idle-timeout = 1m;\n"
        "SET sources.orders.event-time = at; SET execution.checkpointing.dir = 'a;b';"
    )
    orders = "CREATE TEMPORARY VIEW orders (at TIMESTAMP) USING json OPTIONS (path 'data')"
    table = "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t') AS SELECT at FROM STREAM orders"
    path = write(f"{text}{orders};{table}")
    job = load_job(path, ["parallelism=4"]).spec
    assert (job.name, job.parallelism, job.execution.runtime_mode.value) == ("all orders", 4, "streaming")
    assert job.spark["spark.sql.session.timeZone"] == "Europe/Vienna"
    assert job.sources["orders"].watermark.idle_timeout_ms == 60_000
    assert job.execution.checkpointing.dir == str(path.parent / "a;b")


def test_values_are_numbers_flags_or_texts(write: WRITE) -> None:
    """YAML would read 007 as another number, 1:30 as 90 and `no` as false; SQL has no such rules."""
    text = (
        "SET name = '007'; SET parallelism = 3; SET execution.autoscaler.enabled = true; SET spark.a.b = 1:30; "
        "SET spark.a.c = no; SET execution.checkpointing.dir = '';"
        "CREATE TEMPORARY VIEW t (a INT) USING json OPTIONS (path '007', locale no, 'max-files-per-epoch' '10');"
        "CREATE STREAMING TABLE u TBLPROPERTIES (path '1:30') AS SELECT a, count(*) AS n FROM STREAM t GROUP BY a"
    )
    (mistake,) = mistakes(write(text))
    assert mistake == "1: execution.checkpointing.dir must not be empty."
    job = document(write(text.replace("''", "'1'")))
    assert (job["name"], job["parallelism"], job["execution"]["autoscaler"]) == ("007", 3, {"enabled": True})
    assert (job["spark"]["a.b"], job["spark"]["a.c"]) == ("1:30", "no")
    assert job["sources"]["t"]["path"].endswith("/007")
    assert (job["sources"]["t"]["options"], job["sources"]["t"]["max-files-per-epoch"]) == ({"locale": "no"}, 10)
    assert job["outputs"]["u"]["path"].endswith("/1:30")


def test_views_without_stream_are_dimensions(write: WRITE) -> None:
    text = (
        f"{DIR};{ORDERS};"
        "CREATE TEMPORARY VIEW customers (customer STRING, city STRING) USING csv OPTIONS (path 'c', header true);"
        "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t', `max-file-size` '1MB') PARTITIONED BY (city) AS "
        "SELECT city, o.amount FROM STREAM orders o JOIN customers USING (customer)"
    )
    job = document(write(text))
    assert list(job["sources"]) == ["orders"]
    assert job["dimensions"]["customers"]["options"] == {"header": "true"}
    assert job["steps"][0]["from"] == ["orders"]
    assert job["outputs"]["t"]["partition-by"] == ["city"]


def test_a_watermark_belongs_to_the_source(write: WRITE) -> None:
    text = (
        f"{DIR};CREATE OR REPLACE TEMP VIEW clicks (ts BIGINT, page STRING) USING json OPTIONS (path 'data');"
        "CREATE STREAMING TABLE hours TBLPROPERTIES (path 'run/h', key 'page, start') COMMENT 'hourly' AS "
        "SELECT page, window.start, count(*) AS n "
        "FROM STREAM clicks WATERMARK timestamp_millis(ts) AS at DELAY OF INTERVAL 10 MINUTES "
        "GROUP BY page, window(at, '1 hour');"
        "CREATE STREAMING TABLE pages TBLPROPERTIES (path 'run/p') AS SELECT DISTINCT page FROM STREAM(Clicks)"
    )
    job = document(write(text))
    assert job["sources"]["clicks"]["event-time"] == "at"
    assert job["sources"]["clicks"]["watermark"] == {"out-of-orderness": "10m"}
    assert job["sources"]["clicks"]["computed-columns"] == {"at": "timestamp_millis(ts)"}
    assert job["outputs"]["hours"]["key"] == ["page", "start"]
    assert job["steps"][1]["from"] == ["clicks"]


def test_flows_insert_into_one_table(write: WRITE) -> None:
    text = (
        f"{DIR};{ORDERS};CREATE TEMPORARY VIEW refunds (amount BIGINT, customer STRING) USING json OPTIONS (path 'r');"
        "CREATE STREAMING TABLE moves TBLPROPERTIES (path 'run/moves');"
        "CREATE FLOW bought COMMENT 'x' AS INSERT INTO moves BY NAME SELECT customer, amount FROM STREAM orders;"
        "CREATE FLOW returned AS INSERT INTO TABLE moves BY NAME SELECT -amount AS amount, customer FROM STREAM refunds"
    )
    steps = document(write(text))["steps"]
    assert [(step["name"], step["from"]) for step in steps] == [
        ("bought", ["orders"]),
        ("returned", ["refunds"]),
        ("moves", ["bought", "returned"]),
    ]
    assert steps[2]["sql"] == "SELECT * FROM previous"


def test_topics_have_their_columns_in_the_value(write: WRITE) -> None:
    text = (
        f"{DIR};CREATE TEMPORARY VIEW orders (id BIGINT, at TIMESTAMP) USING kafka OPTIONS ('bootstrap-servers' "
        "'b:9092', topics 'orders, more', value.format 'json', kafka.client.id 'x', max-records-per-epoch '10');"
        "CREATE STREAMING TABLE n USING kafka TBLPROPERTIES ('bootstrap-servers' 'b:9092', topic 'n') AS "
        "SELECT id, count(*) AS n FROM STREAM orders GROUP BY id"
    )
    job = document(write(text))
    source = job["sources"]["orders"]
    assert source["value"] == {"format": "json", "schema": "id BIGINT, at TIMESTAMP"}
    assert (source["topics"], source["options"]) == (["orders", "more"], {"kafka.client.id": "x"})
    assert job["outputs"]["n"]["topic"] == "n"


def test_functions_and_sources_without_a_format(write: WRITE) -> None:
    text = (
        f"{DIR};CREATE TEMPORARY FUNCTION slug AS 'words:slug';"
        "CREATE TEMPORARY VIEW orders USING history_and_live OPTIONS ("
        "history.format 'json', history.path 'h', history.schema 'a INT, at TIMESTAMP', live.format 'json', "
        "live.path 'l', live.schema 'a INT, at TIMESTAMP', seam.timestamp '2026-01-01T00:00:00Z', 'event-time' 'at');"
        "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t') AS SELECT slug(a) AS a FROM STREAM orders"
    )
    job = document(write(text))
    assert job["functions"]["slug"]["function"] == "words:slug"
    assert job["sources"]["orders"]["live"]["path"].endswith("/l")


@pytest.mark.parametrize(
    ("statement", "mistake"),
    [
        ("SET a", "SET has a key and a value. Write SET key = value. found=a"),
        ("SELECT 1 FROM x", "Write CREATE STREAMING TABLE name AS before the query, so that its rows have a place."),
        ("INSERT INTO t SELECT 1", "Write CREATE FLOW name AS before INSERT INTO. found=INSERT INTO t"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "Write CREATE STREAMING TABLE: its rows change with those"),
        ("CREATE OR REFRESH STREAMING TABLE t AS SELECT 1", "Write CREATE STREAMING TABLE: its rows change with those"),
        ("CREATE VIEW v AS SELECT 1", "Write CREATE TEMPORARY VIEW: a job has no catalog. found=CREATE VIEW v"),
        ("CREATE TABLE t AS SELECT 1", "Write CREATE TEMPORARY VIEW for records from outside, and"),
        ("USE x", "this statement has no meaning in a job. A SQL file has SET"),
        ("CREATE TEMPORARY VIEW v USING json OPTIONS (path)", "an entry here is a key and a value"),
        ("CREATE TEMPORARY VIEW v USING json OPTIONS (path 'a' 'b')", "an entry here is a key and a value"),
        ("CREATE TEMPORARY VIEW v USING json AS SELECT 1", "this has no meaning here. After the format, a view has"),
        ("CREATE TEMPORARY VIEW v (a INT) AS SELECT 1", "columns are declared before USING"),
        ("CREATE TEMPORARY VIEW v", "a view has USING and the format of its records, or AS and a query"),
        ("CREATE TEMPORARY VIEW 1", "here belongs the name of the view. Write it. found=1"),
        ("CREATE TEMPORARY VIEW v USING 'json'", "here belongs the name of the format. Write it. found='json'"),
        ("CREATE STREAMING TABLE t (a INT) AS SELECT 1", "the columns of a streaming table are those of its query"),
        ("CREATE STREAMING TABLE a.b AS SELECT 1", "the name of a table has one part here: a job has no catalog"),
        ("CREATE STREAMING TABLE `a.b` AS SELECT 1", "the name of a table has one part here: a job has no catalog"),
        ("CREATE STREAMING TABLE t LOCATION 'x'", "a streaming table has USING, PARTITIONED BY, TBLPROPERTIES"),
        ("CREATE STREAMING TABLE t PARTITIONED BY (days(at))", "PARTITIONED BY has the names of columns"),
        ("CREATE STREAMING TABLE t AS INSERT", "here belongs a query. Write a SELECT. found=INSERT"),
        ("CREATE STREAMING TABLE t COMMENT x", "here belongs the comment in quotes. Write it. found=x"),
        ("CREATE FLOW f AS SELECT 1", "a flow inserts into a table. Write CREATE FLOW name AS INSERT INTO table"),
        ("CREATE FLOW f AS INSERT INTO t SELECT 1", "columns of several flows are found by their names. Write BY NAME"),
        ("CREATE TEMPORARY FUNCTION f AS 'a:b' USING JAR 'x'", "this has no meaning here. Only 'module:function'"),
        ("CREATE TEMPORARY FUNCTION f(x INT) RETURN x", "a function is one of Python"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1)", "this closing parenthesis has no opening one. Remove it."),
    ],
)
def test_a_wrong_statement_is_told_with_its_line(write: WRITE, statement: str, mistake: str) -> None:
    (found,) = mistakes(write(f"{DIR};\n{ORDERS};\n{TOTALS};\n{statement};\n"))
    assert found.startswith("4: ")
    assert mistake in found


@pytest.mark.parametrize(
    ("statement", "mistake"),
    [
        ("CREATE FLOW Orders AS INSERT INTO w BY NAME SELECT * FROM STREAM x", "4: line 2 has this name already"),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM STREAM ordres", "4: the file has no view or table of this name."),
        (
            "CREATE TEMPORARY VIEW v AS SELECT * FROM STREAM ordres",
            "Did you mean orders? Known here: orders, totals, v.",
        ),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM orders", "4: this view is a stream in line 3, and a table that"),
        (
            "CREATE TEMPORARY VIEW v AS SELECT * FROM totals",
            "4: rows of a streaming table arrive as they change. Write",
        ),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "4: this query reads no stream. Write FROM STREAM before the view"),
        ("CREATE TEMPORARY VIEW v USING parquet OPTIONS (path 'x')", "4: no query reads this view. Remove it. view=v"),
        ("CREATE STREAMING TABLE u", "4: nothing inserts into this table. Add AS with a query, or a CREATE FLOW."),
        (
            "CREATE FLOW f AS INSERT INTO totlas BY NAME SELECT * FROM STREAM orders",
            "Did you mean totals? Create it, without",
        ),
        (
            "CREATE FLOW f AS INSERT INTO totals BY NAME SELECT * FROM STREAM orders",
            "4: this table has a query of its own.",
        ),
        (
            "CREATE TEMPORARY VIEW v AS SELECT * FROM STREAM w;CREATE TEMPORARY VIEW w AS SELECT * FROM v",
            "4: these queries read each other, so none can be first. Break the circle. queries=",
        ),
        (
            "CREATE TEMPORARY VIEW v AS SELECT * FROM STREAM totals WATERMARK at DELAY OF INTERVAL 1 HOUR",
            "4: a WATERMARK belongs to a view with USING",
        ),
        (
            (
                "CREATE TEMPORARY VIEW v AS SELECT * FROM STREAM orders WATERMARK at DELAY OF INTERVAL 1 HOUR;"
                "CREATE TEMPORARY VIEW w AS SELECT * FROM STREAM orders WATERMARK at DELAY OF INTERVAL 2 HOURS"
            ),
            "4: this view has another WATERMARK in line 4, and can have one.",
        ),
    ],
)
def test_statements_that_do_not_fit_together(write: WRITE, statement: str, mistake: str) -> None:
    found = mistakes(write(f"{DIR};\n{ORDERS};\n{TOTALS};\n{statement};\n"))
    assert any(mistake in one for one in found), found


@pytest.mark.parametrize(
    ("statement", "mistake"),
    [
        (
            "SET execution.runtime-mod = mixed",
            "4: execution.runtime-mod is not a known key. Did you mean runtime-mode?",
        ),
        ("SET execution.checkpointing.dir = x", "4: execution.checkpointing.dir is given twice, first at"),
        (
            (
                "CREATE TEMPORARY VIEW v (a INT) USING json OPTIONS (path 'x', 'event-tme' 'a');"
                "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t') AS SELECT * FROM STREAM v"
            ),
            "4: sources.v.event-tme is not a known key. Did you mean event-time?",
        ),
        (
            (
                "CREATE TEMPORARY VIEW v (a INT) USING json OPTIONS (path 'x', headr true);"
                "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t') AS SELECT * FROM STREAM v"
            ),
            "4: sources.v.options.headr is not an option of Spark's reader of json files",
        ),
        (
            "CREATE STREAMING TABLE t TBLPROPERTIES (path 'run/t', kye 'a') AS SELECT * FROM STREAM orders",
            "4: outputs.t.kye is not a known key. Did you mean key?",
        ),
        (
            "CREATE STREAMING TABLE t USING parket TBLPROPERTIES (path 'run/t') AS SELECT * FROM STREAM orders",
            "4: outputs.t.format",
        ),
        (
            "CREATE STREAMING TABLE `my t` TBLPROPERTIES (path 'run/t') AS SELECT * FROM STREAM orders",
            "4: steps[1].name: SQL reads it by its name, so the name is letters, digits and _",
        ),
    ],
)
def test_settings_are_checked_as_those_of_a_job_file(write: WRITE, statement: str, mistake: str) -> None:
    found = mistakes(write(f"{DIR};\n{ORDERS};\n{TOTALS};\n{statement};\n"))
    assert any(one.startswith(mistake) for one in found), found


@pytest.mark.parametrize("text", ["", "-- nothing\n;"])
def test_an_empty_file_is_no_job(write: WRITE, text: str) -> None:
    path = write(text)
    with pytest.raises(InvalidJobError, match=r"the SQL file is empty\. A job needs at least a view, and a streaming"):
        load_job(path)


def test_a_file_without_a_table_has_no_result(write: WRITE) -> None:
    found = mistakes(write(f"{DIR};\n{ORDERS};\nCREATE TEMPORARY VIEW v AS SELECT * FROM STREAM orders"))
    assert found == ["3: the file has no result. Add CREATE STREAMING TABLE name AS, with a query."]


@given(st.data())
def test_a_damaged_file_is_a_job_or_told_what_is_wrong(data: st.DataObject) -> None:
    pieces = [piece for piece in re.split(r"(\W)", f"{DIR};\n{ORDERS};\n{TOTALS};\n") if piece]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.lists(
                st.sampled_from(["(", ")", "'", "`", ",", ";", " STREAM ", " AS ", "/*", "\\", ".", "=", " WATERMARK "])
            )
        )
    text = "".join(pieces)
    tree, told = None, "orders.sql:"
    try:
        tree = sql_tree(text, "orders.sql", "orders")
    except InvalidJobError as error:
        told = str(error)
    assert told.startswith("orders.sql:")
    assert tree is None or document_of(tree, "orders.sql").values["name"] == "orders"
