"""After a death, damage and a move, a history and what is live still give each record once."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver.restoring import restore_savepoint
from tests.faults.in_process import dies_at
from tests.harness import checkpoint_log, manifests, output_rows, run
from tests.history.story import Story, sales, table_of

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def story(scratch_folder: Path, tmp_path: Path) -> Story:
    story = Story(tmp_path / "a folder")
    story.archive(sales(-400, 450))
    story.live(sales(-20, 120))
    return story


def test_a_backlog_whose_driver_died_is_repeated_over_the_same_range_of_both_sides(
    spark: SparkSession, story: Story
) -> None:
    dies_at(story.job(), spark, "before-manifest", 0)
    story.archive(sales(-500, 120))
    story.live(sales(-5, 30))
    recording = run(story.job(), spark)
    records = [event.records for event in recording.committed]
    assert records == [500, 145], "400 + 100 that were there; then 120 and 25 that have come since"
    assert table_of(output_rows(story.out)) == story.answer()


def test_going_back_reads_both_sides_again_from_where_the_older_checkpoint_left_them(
    spark: SparkSession, story: Story
) -> None:
    run(story.job(), spark, feed=[lambda: story.live(sales(100, 30)), lambda: story.archive(sales(-600, 50))])
    newest = manifests(story.checkpoints)[-1]
    assert newest.epoch == 2
    (story.checkpoints / paths.manifest_path(newest.epoch)).write_bytes(b"damaged")
    story.live(sales(130, 20))
    recording = run(story.job(), spark)
    assert [one.to for one in recording.went_back] == [1]
    assert sum(event.records for event in recording.committed) == 70, "what was archived at last, and what is new"
    assert table_of(output_rows(story.out)) == story.answer()


def test_a_savepoint_goes_on_where_both_folders_have_moved(spark: SparkSession, story: Story, tmp_path: Path) -> None:
    run(story.job(), spark)
    create_savepoint(checkpoint_log(story.checkpoints), ObjectStore(str(tmp_path / "savepoint")), now_ms=0)
    elsewhere = tmp_path / "elsewhere"
    for name in ("archive", "live"):
        shutil.move(story.folder / name, elsewhere / name)
    shutil.copytree(story.out, elsewhere / "out")
    shutil.copy(story.file, elsewhere)
    moved = Story.__new__(Story)
    moved.__dict__ |= {**story.__dict__, "folder": elsewhere}
    folders = {str(story.folder / name): str(elsewhere / name) for name in ("archive", "live")}
    restore_savepoint(str(tmp_path / "savepoint"), moved.job().spec, moved.job().where, moved=folders, session=spark)
    moved.live(sales(100, 25))
    recording = run(moved.job(), spark)
    assert [event.records for event in recording.committed] == [25]
    assert table_of(output_rows(moved.out)) == moved.answer()
