"""Flows of changes in a project of Spark's declarative pipelines: their tables, their readers, and what is refused."""

from pathlib import Path

import pyspark.pipelines
import pytest
from pyspark.sql import SparkSession

from mixedmode.config import load_job
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from tests.harness import output_rows, run, write_json, write_text

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not hasattr(pyspark.pipelines, "create_auto_cdc_flow"), reason="create_auto_cdc_flow came with Spark 4.2"
    ),
]
PIPELINE = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.temporary_view
def changes():
    return spark.readStream.schema("op STRING, lsn BIGINT, id BIGINT, city STRING").json("FOLDER/in")


dp.create_streaming_table("people", table_properties={"path": "FOLDER/people"})
dp.create_auto_cdc_flow(
    target="people",
    source="changes",
    keys=["id"],
    sequence_by=F.struct("lsn", F.col("op")),
    apply_as_deletes=F.expr("op = 'd' OR city IS NULL"),
    except_column_list=["op", F.col("lsn")],
    name="of_changes",
)
COLUMNS = "id BIGINT, __START_AT BIGINT, city STRING, __END_AT BIGINT"
dp.create_streaming_table("past", table_properties={"path": "FOLDER/past"}, schema=COLUMNS)
dp.create_auto_cdc_flow(
    "past", "changes", [F.col("id")], "lsn", "op = 'd'", column_list=["id", "city"], stored_as_scd_type=2
)


@dp.materialized_view(table_properties={"path": "FOLDER/cities"})
def cities():
    return spark.read.table("people").groupBy("city").count()


@dp.materialized_view(table_properties={"path": "FOLDER/ended"})
def ended():
    return spark.read.table("past").where("__END_AT IS NOT NULL").groupBy("id").count()
"""
RECORDS = [
    {"op": "c", "lsn": 1, "id": 1, "city": "Rome"},
    {"op": "u", "lsn": 4, "id": 1, "city": "Oslo"},
    {"op": "u", "lsn": 3, "id": 1, "city": "Bern"},
    {"op": "c", "lsn": 2, "id": 2, "city": "Rome"},
    {"op": "d", "lsn": 6, "id": 2, "city": "Rome"},
    {"op": "c", "lsn": 5, "id": 3, "city": None},
]
#: {table: its rows}
TABLES = {
    "people": [(1, "Oslo")],
    "past": [(1, 1, "Rome", 3), (1, 3, "Bern", 4), (1, 4, "Oslo", None), (2, 2, "Rome", 6), (3, 5, None, None)],
    "cities": [("Oslo", 1)],
    "ended": [(1, 2), (2, 1)],
}


def test_flows_of_changes_make_tables_that_others_read(spark: SparkSession, folder: Path) -> None:
    write_json(folder / "in", "a.json", RECORDS)
    file = write_text(folder, "job.py", PIPELINE.replace("FOLDER", str(folder)))
    run(Job.from_file(file, ["execution.runtime-mode=batch"]), spark)
    assert {name: sorted(tuple(row.values()) for row in output_rows(folder / name)) for name in TABLES} == TABLES


SPEC = """\
name: shop
storage: storage
configuration: {spark.master: "local[2]"}
libraries:
  - glob: {include: tables/**}
"""
IN_SQL = """\
CREATE TEMPORARY VIEW records (op STRING, lsn BIGINT, id BIGINT, city STRING) USING json OPTIONS (path 'in');
CREATE STREAMING TABLE past FLOW AUTO CDC FROM STREAM records KEYS (id) APPLY AS DELETE WHEN op = 'd'
  SEQUENCE BY lsn COLUMNS * EXCEPT (op, lsn) STORED AS SCD TYPE 2;
"""
IN_PYTHON = """\
from pyspark import pipelines as dp


@dp.materialized_view
def ended():
    return spark.read.table("past").where("__END_AT IS NOT NULL").groupBy("id").count()
"""


def test_functions_read_the_table_of_a_flow_in_a_sql_file(spark: SparkSession, folder: Path) -> None:
    write_json(folder / "in", "a.json", RECORDS)
    write_text(folder / "tables", "past.sql", IN_SQL)
    write_text(folder / "tables", "ended.py", IN_PYTHON)
    file = write_text(folder, "spark-pipeline.yml", SPEC)
    run(Job.from_file(file, ["execution.runtime-mode=batch"]), spark)
    for name in ("past", "ended"):
        found = sorted(tuple(row.values()) for row in output_rows(folder / "storage" / "tables" / name))
        assert found == TABLES[name]


HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F
@dp.table
def s():
    return spark.readStream.schema("k STRING, v BIGINT, at TIMESTAMP").json("FOLDER/in")
dp.create_streaming_table("t")
"""
#: {arguments of a flow, or several, in the line below HEAD: (the line, what the message says)}
REFUSED: dict[str, tuple[int, *tuple[str, ...]]] = {
    "'t', 's', ['k']": (7, "the code raises an exception", "sequence_by"),
    "'t', 's', ['q'], 'at'": (7, "flow t: ", "`q` cannot be resolved"),
    "'t', 's', ['k'], 'at', column_list=['w']": (7, "flow t: ", "columns: there is no column w."),
    "'t', 's', ['k'], 'at', track_history_column_list=['v']": (
        7,
        "flow t: ",
        "track_history_column_list is about versions, which a table",
    ),
    "'u', 's', ['k'], 'at'": (7, "flow u: no Python file creates a table of this name."),
    "'t', 'z', ['k'], 'at'": (7, "flow t: the pipeline has no table or view of this name.", "found=z"),
    "'t', 's', ['k'], 'at')\ndp.create_auto_cdc_flow('t', 's', ['k'], 'v'": (8, "has no other flow. Unite", "table=t"),
    "'t', 's', ['k'], 'at', spark_conf={'a': 'b'}": (7, "settings belong to the whole job", "flow=t"),
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_flow_that_does_not_fit_is_refused_with_its_line(spark: SparkSession, folder: Path, arguments: str) -> None:
    del spark
    (folder / "in").mkdir()
    text = HEAD.replace("FOLDER", str(folder)) + f"dp.create_auto_cdc_flow({arguments})\n"
    file = write_text(folder, "job.py", text)
    line, *parts = REFUSED[arguments]
    with pytest.raises(InvalidJobError) as raised:
        load_job(file, ["execution.runtime-mode=batch"])
    assert f"{file}:{line}: " in str(raised.value)
    for part in parts:
        assert part in str(raised.value)
