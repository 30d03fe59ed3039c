"""The example of docs/tutorial-segments.md: its job against its service, over fewer orders."""

import importlib.util
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from mixedmode.config import load_job
from mixedmode.job import Job
from tests.harness import ManualClock, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "segments"
CLOCK_MS = 1_800_000_000_000  # later than the orders, so that none of them is ahead of it


@pytest.fixture
def segments() -> ModuleType:
    spec = importlib.util.spec_from_file_location("segments_example", EXAMPLE / "segments.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark
def test_the_totals_are_those_of_plain_python_and_each_customer_is_asked_for_once(
    spark: SparkSession, segments: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    segments.prepare(folder, count=300)
    let_in: list[Callable[[], object]] = [partial(segments.write_orders, folder, 100)]
    with segments.serve(0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            text = (EXAMPLE / "job.yaml").read_text(encoding="utf-8")
            placed = text.replace("../../run/segments", str(folder)).replace(":8765", f":{server.server_port}")
            (tmp_path / "job.yaml").write_text(placed, encoding="utf-8")
            (tmp_path / "segments.py").write_text((EXAMPLE / "segments.py").read_text(), encoding="utf-8")
            run(Job.from_file(tmp_path / "job.yaml"), spark, feed=let_in, clock=ManualClock(CLOCK_MS))
        finally:
            server.shutdown()
            thread.join()
    assert segments.check(folder)
    assert "totals of 400 orders, 0 of them differ" in capsys.readouterr().out
    ordered = {order["customer"] for order in segments.orders(0, 400)}
    assert dict(segments.Service.asked) == dict.fromkeys(ordered, 1)
    assert segments.Service.calls >= segments.FAILS_EVERY, "a call was refused, and sent again"


def test_the_job_file_is_valid() -> None:
    assert list(load_job(EXAMPLE / "job.yaml").spec.dimensions) == ["customers"]


def test_the_tutorial_shows_the_job_file_as_it_is() -> None:
    assert (EXAMPLE / "job.yaml").read_text() in (ROOT / "docs" / "tutorial-segments.md").read_text()
