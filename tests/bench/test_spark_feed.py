"""The feed without Spark: files come in one by one, and an epoch lasts from its trigger to its publication."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.listener import StreamingQueryProgress

from mixedmode_bench.contestant import EpochSpan
from mixedmode_bench.feed import Feed, live_parts, with_events


@dataclass
class Progress:
    batchId: int  # noqa: N815  # as Spark has it
    timestamp: str
    durationMs: dict[str, int] = field(default_factory=lambda: {"addBatch": 1})  # noqa: N815


def test_a_file_comes_in_when_the_one_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, folder = tmp_path / "waiting", tmp_path / "in"
    waiting.mkdir()
    folder.mkdir()
    files = [waiting / f"{name}.parquet" for name in "ba"]
    for rows, file in enumerate(files, 5):
        pq.write_table(pa.table({"k": list(range(rows))}), file)
    feed = Feed(files, folder)
    assert feed.let_in()
    assert [path.name for path in folder.iterdir()] == ["b.parquet"], "in their order, not in that of their names"
    now = iter((103.0, 109.5))
    monkeypatch.setattr("mixedmode_bench.feed.time.time", lambda: next(now))
    assert feed.published(7)
    assert pq.read_table(folder / "a.parquet").num_rows == 6
    assert not feed.published(8)
    assert not feed.published(9), "a micro-batch without a file changes nothing"
    times = [datetime.fromtimestamp(moment, UTC).isoformat() for moment in (101, 104, 106)]
    idle = Progress(8, times[1], {"triggerExecution": 3})
    progress = [Progress(7, times[0]), idle, Progress(8, times[2]), Progress(9, times[2])]
    spans = feed.spans(cast("list[StreamingQueryProgress]", progress), began=100.0)
    assert spans == (EpochSpan(1.0, 3.0, 5), EpochSpan(6.0, 9.5, 6))
    assert all(file.is_file() for file in files)


@given(st.lists(st.integers(0, 10_000)), st.integers(1, 10**9))
def test_epochs_share_all_events_in_proportion(counts: list[int], events: int) -> None:
    spans = [EpochSpan(float(number), number + 1.0, count) for number, count in enumerate(counts)]
    found = with_events(spans, events)
    if sum(counts) == 0:
        assert found == ()
        return
    assert abs(sum(span.events for span in found) - events) <= len(counts)
    assert all(
        a.events * sum(counts) == pytest.approx(b.events * events, abs=sum(counts))
        for a, b in zip(found, spans, strict=True)
    )
    assert [span.start_s for span in found] == [span.start_s for span in spans]


def test_the_first_live_epoch_stands_apart() -> None:
    ends, counts = (9.0, 1.0, 3.0, 2.0, 0.5), (50, 50, 50, 50, 2)
    parts = live_parts(tuple(EpochSpan(0.0, end, n) for end, n in zip(ends, counts, strict=True)))
    assert parts == {"first live epoch": 9.0, "large epoch": 2.0, "small epoch": 0.5}
