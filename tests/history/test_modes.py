"""A history and live files that overlap, as one source: every mode gives the answer of plain Python."""

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.driver.phases import Until
from mixedmode.plan.explain import explain_plan
from tests.harness import output_rows, run, write_json, write_parquet
from tests.history.story import JOB, SCHEMA, SEAM, Sale, Story, answer, sales, table_of

pytestmark = pytest.mark.spark


def test_tasks_read_the_files_of_the_history_and_spark_reads_what_is_live(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.archive(sales(-9, 9))
    job = story.job()
    plan = analyse(spark, job.spec, job.where).plan
    assert plan.listed == {"sales": 0}
    assert not plan.is_all_listed
    lines = explain_plan(job.spec, plan, cores=2).splitlines()
    place = lines.index(
        "  read by     the map tasks themselves, column by column (at, shop, price); Spark finds the files"
    )
    assert lines[place + 1] == "              its other side by Spark"


@pytest.mark.parametrize(("mode", "file_format"), [("mixed", "parquet"), ("mixed", "json"), ("batch", "json")])
def test_an_epoch_with_a_text_that_only_spark_computes_is_read_by_spark_and_the_others_by_tasks(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str, file_format: str
) -> None:
    text = JOB.replace("steps:\n", "steps:\n  - sql: SELECT upper(shop) AS shop, price, at FROM sales\n")
    in_json = "{format: json, path: archive, schema: 'shop string, price long, at timestamp'}"
    text = text if file_format == "parquet" else text.replace("{format: parquet, path: archive}", in_json)
    story = Story(tmp_path / "a folder", text)

    def archive(name: str, sold: list[Sale]) -> None:
        rows = [{"shop": shop, "price": price, "at": at} for shop, price, at in sold]
        if file_format == "parquet":
            write_parquet(story.folder / "archive", f"{name}.parquet", pa.Table.from_pylist(rows, SCHEMA))
        else:
            write_json(story.folder / "archive", f"{name}.json", [{**row, "at": str(row["at"])} for row in rows])

    first, later = [*sales(-60, 40), ("straße", 5, SEAM - timedelta(hours=1))], sales(-20, 10)
    archive("first", first)
    story.live(sales(0, 10))
    caplog.set_level("INFO", logger="mixedmode.executor.spark")
    job = story.job(f"execution.runtime-mode={mode}")
    run(job, spark, feed=() if mode == "batch" else [lambda: archive("later", later)])
    sold = [*first, *sales(0, 10), *(() if mode == "batch" else later)]
    assert table_of(output_rows(story.out)) == answer((shop.upper(), price, at) for shop, price, at in sold)
    told = [record for record in caplog.records if record.name == "mixedmode.executor.spark"]
    left = [record.getMessage().partition(",")[0] for record in told]
    assert left == ["Spark reads the files of epoch 0"], "the later epoch is one of the tasks"


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.soak), "mixed"])
def test_modes_agree_with_plain_python(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    story = Story(tmp_path / "a folder")
    story.archive(sales(-60, 90))  # it goes on 30 hours behind the seam
    story.live(list(reversed(sales(-20, 40))))  # begins before it, and is out of order
    feed = [lambda: story.live(sales(-3, 30)), lambda: story.archive(sales(-70, 80))]
    recording = run(story.job(f"execution.runtime-mode={mode}"), spark, feed=() if mode == "batch" else feed)
    records = [event.records for event in recording.committed]
    assert records == ([80] if mode == "batch" else [80, 27, 70]), "60 + 20; then what is not before; then what is"
    assert table_of(output_rows(story.out)) == story.answer()


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.soak), "mixed"])
def test_no_record_of_the_history_is_late_in_any_mode(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """In streaming mode, live records come in the epochs in which the history is read, whatever its limits are."""
    story = Story(tmp_path / "a folder", JOB.replace("key-by: [shop]", "key-by: [shop]\n    window: {tumbling: 1d}"))
    for first in (-72, -48, -24):
        story.archive(sales(first, 24))
    for first in (0, 24, 48):
        story.live(sales(first, 24))
    one_file = [f"sources.sales.{side}.max-files-per-epoch=1" for side in ("history", "live")]
    recording = run(story.job(f"execution.runtime-mode={mode}", *one_file), spark, until=Until.DRAINED)
    records = [event.records for event in recording.committed]
    assert records == ([24 * 4, 24, 24, 0] if mode == "streaming" else [24 * 6] if mode == "batch" else [24 * 6, 0])
    assert sum(event.records_late for event in recording.committed) == 0
    sold = dict[tuple[str, datetime], int]()
    for shop, _, at in story.archived + story.lived:
        day = shop, at.replace(hour=0)
        sold[day] = sold.get(day, 0) + 1
    rows = output_rows(story.out)
    assert {(row["shop"], row["window_start"]): row["sold"] for row in rows} == sold


def test_it_may_be_one_of_several_sources_and_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    text = JOB.replace(
        "steps:\n", "  refunds: {format: json, path: refunds, schema: 'shop string, price long'}\nsteps:\n"
    )
    text = text.replace(
        "steps:\n", "steps:\n  - sql: SELECT shop, price FROM sales UNION ALL SELECT shop, -price FROM refunds\n"
    )
    story = Story(tmp_path / "a folder", text)
    refunds = sales(5, 9)

    def refund() -> None:
        write_json(story.folder / "refunds", "refund.json", [{"shop": shop, "price": n} for shop, n, _ in refunds])

    (story.folder / "refunds").mkdir()
    story.archive(sales(-60, 90))
    story.live(sales(-20, 40))
    run(story.job(), spark, feed=[refund])
    story.live(sales(20, 10))
    recording = run(story.job(), spark)
    assert [event.records for event in recording.committed] == [10], "nothing is read twice"
    expected = answer([*sales(-60, 60), *sales(0, 30), *((shop, -price, at) for shop, price, at in refunds)])
    assert table_of(output_rows(story.out)) == expected
