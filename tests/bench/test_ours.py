"""This program as a contestant: its answers are DuckDB's in each mode, and its times are those of its epochs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode_bench.ours import Batch, Mixed, Streaming
from mixedmode_bench.workload import Size
from mixedmode_bench.workloads.counts import COUNT_SUM, LIVE
from mixedmode_bench.workloads.windows import WINDOWS
from tests.bench.tiny import check_epochs, run_and_check, tiny_task

pytestmark = pytest.mark.spark


def test_mixed_mode_flips_after_its_one_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tiny_task(WINDOWS, Size(1000, 3), tmp_path, monkeypatch)
    outcome = run_and_check(Mixed(), task, tmp_path, may_lack=True)
    check_epochs(outcome, backlog=1000, live=[])
    (epoch,) = outcome.epochs
    parts = outcome.parts
    assert outcome.seconds == pytest.approx(parts["start"] + parts["backlog"] + parts["flip"])
    assert epoch.end_s - epoch.start_s == pytest.approx(parts["backlog"])
    assert parts["whole run"] >= outcome.seconds
    assert outcome.profile["driver: tasks"] <= parts["backlog"]


def test_mixed_mode_takes_a_file_of_the_feed_in_each_live_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tiny_task(LIVE, Size(3200, 500), tmp_path, monkeypatch)
    outcome = run_and_check(Mixed(), task, tmp_path)
    check_epochs(outcome, backlog=500, live=[500, 500, 20])
    live = [span.end_s - span.start_s for span in outcome.epochs[1:]]
    names = ("first live epoch", "large epoch", "small epoch")
    assert [outcome.parts[name] for name in names] == pytest.approx(live)
    assert outcome.seconds == pytest.approx(sum(live))
    assert outcome.parts["start to flip"] >= outcome.epochs[0].end_s


@pytest.mark.parametrize("contestant", [Streaming(), Batch()], ids=["streaming", "batch"])
def test_the_other_modes_give_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contestant: Streaming | Batch
) -> None:
    task = tiny_task(COUNT_SUM, Size(1000, 100), tmp_path, monkeypatch)
    outcome = run_and_check(contestant, task, tmp_path)
    check_epochs(outcome, backlog=1000, live=[])
    assert outcome.epochs[-1].end_s <= outcome.seconds <= outcome.parts["whole run"]


def test_batch_mode_has_no_live_epochs() -> None:
    assert not Batch().takes(LIVE)
    assert Streaming().takes(LIVE)
