"""The example of docs/tutorial-trades.md: its data, its job, and its check, over fewer events."""

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from mixedmode import read_table
from mixedmode.config import load_job
from mixedmode.driver.phases import Until
from mixedmode.job import Job
from tests.harness import ManualClock, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trades"
CLOCK_MS = 1_800_000_000_000  # later than the events, so that none of them is ahead of it


@pytest.fixture(scope="module")
def trades() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trades_example", EXAMPLE / "trades.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark
def test_history_and_live_trades_have_the_quotes_that_plain_python_gives(
    spark: SparkSession, trades: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trades.prepare(tmp_path, count=5_000)
    places = {
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        **{f"sources.{name}.history.path": tmp_path / "history" / name for name in ("trades", "quotes")},
        **{f"sources.{name}.live.path": tmp_path / "live" / name for name in ("trades", "quotes")},
        **{f"outputs.{name}.path": tmp_path / name for name in ("priced", "minutes")},
    }
    job = Job.from_file(EXAMPLE / "job.yaml", [f"{key}={value}" for key, value in places.items()])
    let_in: list[Callable[[], object]] = [partial(trades.write_live, tmp_path, 600)]
    run(job, spark, feed=let_in, clock=ManualClock(CLOCK_MS))
    assert trades.check(tmp_path)
    assert ", 0 of them differ from plain Python" in capsys.readouterr().out
    run(job, spark, until=Until.DRAINED, clock=ManualClock(CLOCK_MS))
    assert trades.check(tmp_path)
    assert "0 still wait" in capsys.readouterr().out
    found = {(row["symbol"], row["window_start"]): row for row in read_table(str(tmp_path / "minutes")).to_pylist()}
    expected = trades.minutes(trades._read(tmp_path, "trades"))
    assert {window: row["trades"] for window, row in found.items()} == expected
    assert 0 < sum(row["quoted"] for row in found.values()) < sum(expected.values())


def test_a_feed_goes_on_where_the_one_before_has_ended(
    trades: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trades.time, "sleep", lambda _seconds: None)
    trades.prepare(tmp_path, count=100)
    trades.feed(tmp_path, seconds=3, per_second=20)
    trades.feed(tmp_path, seconds=2, per_second=30)
    expected = [event for _, event in trades.events(100, 120, trades.SEAM, trades.LIVE_STEP)]
    found = [event for table in ("trades", "quotes") for event in trades._live(tmp_path, table)]
    assert sorted(found, key=number_of) == expected


def number_of(event: dict[str, int]) -> int:
    return event["trade_id"] if "trade_id" in event else event["quote_id"]


def test_the_job_file_is_valid() -> None:
    assert list(load_job(EXAMPLE / "job.yaml").spec.results) == ["priced", "minutes"]


def test_the_tutorial_shows_the_job_file_as_it_is() -> None:
    assert (EXAMPLE / "job.yaml").read_text() in (ROOT / "docs" / "tutorial-trades.md").read_text()


def test_a_quote_counts_from_its_time_on_for_five_minutes(trades: ModuleType) -> None:
    at = trades.SEAM
    quotes = [
        {"quote_id": 2, "symbol": "SAP", "at": at},
        {"quote_id": 1, "symbol": "SAP", "at": at},
        {"quote_id": 3, "symbol": "IBM", "at": at + trades.TOLERANCE},
    ]
    times = {0: at, 1: at + trades.TOLERANCE, 2: at + 2 * trades.TOLERANCE, 3: at - trades.LATE_MAX}
    found = trades.priced([{"trade_id": n, "symbol": "SAP", "at": time} for n, time in times.items()], quotes)
    assert found == {0: 2, 1: 2, 2: None, 3: None}
