"""The options of Spark's readers that mixedmode knows, compared with Spark itself."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config.reader_options import LOSSY_SETTINGS, REFUSED, known_options
from mixedmode.connectors.files.source import FileSource
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK

pytestmark = pytest.mark.spark


def listed_by(options: object) -> set[str]:
    return set(options.getAllOptions().mkString(" ").split())  # type: ignore[attr-defined]


def test_every_option_that_spark_lists_is_known_or_refused_on_purpose(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    sql = jvm.org.apache.spark.sql
    of_all = listed_by(sql.execution.datasources.FileIndexOptions)
    of_format = {
        "csv": listed_by(sql.catalyst.csv.CSVOptions),
        "json": listed_by(sql.catalyst.json.JSONOptions),
        "parquet": listed_by(sql.execution.datasources.parquet.ParquetOptions),
    }
    known_or_refused = {name: {option.lower() for option in (*known_options(name), *REFUSED)} for name in of_format}
    for name, options in of_format.items():
        assert len(options) > 3
        assert {option.lower() for option in options | of_all} - known_or_refused[name] == set()


@pytest.mark.parametrize("setting", [name for name in LOSSY_SETTINGS if name.startswith("spark.sql.")])
def test_a_session_that_passes_over_input_is_refused(spark: SparkSession, tmp_path: Path, setting: str) -> None:
    (tmp_path / "in").mkdir()
    job = Job("lossy", sources={"t": Source.json(tmp_path / "in", schema="k string")}, mode="batch", spark=SPARK)
    spec = job.sql("SELECT * FROM t").write(Sink.console()).spec
    session = spark.newSession()
    session.conf.set(setting, "true")
    with pytest.raises(InvalidJobError, match=f"{setting} would lose records without a message"):
        analyse(session, spec, job.where)


def test_options_may_name_variables_of_the_environment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEPARATOR", "|")
    monkeypatch.setenv("NOTHING", "none-at-all")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a|1\nnone-at-all|2\n")
    options = {"sep": "${env:SEPARATOR}", "nullValue": "${env:NOTHING}"}
    source = Source.csv(tmp_path / "in", schema="k string, v int", options=options)
    assert isinstance(source, FileSourceSpec)
    rows = FileSource(spark, source, where="sources.t").batch().collect()
    assert sorted((row.k or "", row.v) for row in rows) == [("", 2), ("a", 1)]
    monkeypatch.delenv("NOTHING")
    with pytest.raises(InvalidJobError, match=r"^sources\.t\.options: a setting needs .* variable=NOTHING$"):
        FileSource(spark, source, where="sources.t")


@pytest.mark.parametrize(
    ("file_format", "options"), [("parquet", {}), ("csv", {}), ("json", {}), ("json", {"allowComments": "true"})]
)
def test_a_frame_that_the_program_has_cached_is_not_read_in_place_of_the_files(
    spark: SparkSession, tmp_path: Path, file_format: str, options: dict[str, str]
) -> None:
    folder = tmp_path / "in"
    ids = spark.range(0, 1, 1, 1).selectExpr("CAST(id AS int) AS id")
    ids.write.format(file_format).save(str(folder))
    spec = Source.of(file_format, path=folder, schema="id int", options=options)
    assert isinstance(spec, FileSourceSpec)
    source = FileSource(spark, spec, where="sources.t")
    by_itself = {**source._base, **source._record_options()}
    del by_itself["mixedmode"]
    cached = [
        spark.read.format(file_format).schema("id int").options(**by_itself).load(str(folder)),
        spark.read.format("text").schema("value string").load(str(folder)),
        spark.read.format("binaryFile").load(str(folder)),
    ]
    for frame in cached:
        frame.cache().collect()
    before = source.newest(spark, None)
    ids.write.format(file_format).mode("append").save(str(folder))
    assert source.batch().count() == 2
    newest = source.newest(spark, before)
    assert newest.name != before.name
    assert newest.frame.count() == 2
    source.list_batch()
    assert len(source.batch_files()) == 2
    for frame in cached:
        frame.unpersist()
