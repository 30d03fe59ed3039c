"""Traces of epochs: their spans are the stages, one after the other, and never outside of their epoch."""

import http.server
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochCommitted, EpochFailed, EpochProgress, EpochStarted, Event, TaskPhase
from mixedmode.driver.traces import EpochTraces, exported_traces
from tests.driver.committed import epoch_committed
from tests.harness import HandClock

PROFILE = {
    "fold": 9.5,
    "driver: tasks": 6.5,
    "driver: commit": 1.0,
    "driver: publish": 0.5,
}


def committed(epoch: int, seconds: float = 8.0) -> EpochCommitted:
    return epoch_committed(epoch, is_backlog=epoch == 0, state_bytes=1000, seconds=seconds, profile=PROFILE)


def progress(phase: TaskPhase) -> EpochProgress:
    return EpochProgress(Epoch(0), True, 0.0, "totals", phase, 0.5, None, 1, None, 1, None, 0, 1)


@dataclass
class SteppedClock(HandClock):
    """A clock that was set back by so many seconds; its stopwatch was not."""

    set_back: int = 0

    @override
    def now_ms(self) -> int:
        return super().now_ms() - 1000 * self.set_back


def spans_of(events: Sequence[tuple[int, Event]], *, set_back: int = 0) -> dict[str, ReadableSpan]:
    """Return the spans after (second, event), by name.  set_back: the clock is set back after the first event."""
    exporter, provider, clock = InMemorySpanExporter(), TracerProvider(), SteppedClock()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = EpochTraces("orders", provider, clock)
    for second, event in events:
        clock.at = second
        traces(event)
        clock.set_back = set_back
    return {span.name: span for span in exporter.get_finished_spans()}


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


@pytest.mark.parametrize("set_back", [0, 3600])
def test_an_epoch_is_a_trace_and_its_stages_follow_each_other(set_back: int) -> None:
    found = spans_of(
        [
            (100, EpochStarted(Epoch(0), is_backlog=True, strategy="sorted")),
            (101, progress("reading")),
            (102, progress("reading")),
            (104, progress("sorting")),
            (106, progress("done")),
            (108, committed(0)),
        ],
        set_back=set_back,
    )
    assert {name: seconds(span) for name, span in found.items()} == {
        "epoch": (100.0, 108.0),
        "tasks": (100.0, 106.5),
        "totals: reading": (101.0, 104.0),
        "totals: sorting": (104.0, 106.0),
        "commit": (106.5, 107.5),
        "publish": (107.5, 108.0),
    }
    root = found["epoch"]
    assert root.parent is None
    assert {span.context.trace_id for span in found.values()} == {root.context.trace_id}
    assert found["commit"].parent == root.context
    assert found["totals: reading"].parent == found["tasks"].context
    given = dict(root.attributes or {})
    assert (given["mixedmode.job"], given["mixedmode.epoch"], given["mixedmode.kind"]) == ("orders", 0, "backlog")
    assert (given["mixedmode.records"], given["mixedmode.work_seconds.fold"]) == (100, 9.5)


@pytest.mark.parametrize("set_back", [0, 3600])
def test_a_failed_attempt_is_a_trace_with_its_reason_and_the_next_one_has_its_own(set_back: int) -> None:
    started = EpochStarted(Epoch(3), is_backlog=False, strategy="streaming")
    failed = EpochFailed(Epoch(3), 1, 3, "the store does not answer")
    found = spans_of([(10, started), (12, failed)], set_back=set_back)
    assert seconds(found["epoch"]) == (10.0, 12.0)
    assert found["epoch"].status.description == "the store does not answer"
    assert not found["epoch"].status.is_ok
    published = spans_of([(20, committed(3))])
    assert seconds(published["epoch"]) == (12.0, 20.0), "an epoch that is only published has no start"


class _Collector(http.server.BaseHTTPRequestHandler):
    paths: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *given: object) -> None:  # noqa: A002 - Python's name
        pass


def test_traces_are_sent_to_the_collector_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _Collector.paths = []
    with http.server.HTTPServer(("127.0.0.1", 0), _Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with exported_traces("orders") as observer:
            observer(committed(1))
        server.shutdown()
        thread.join()
    assert _Collector.paths == ["/v1/traces"]
