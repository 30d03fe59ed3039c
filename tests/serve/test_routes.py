"""The routes of the server beside a running job: what they answer, and with which headers."""

import json
from pathlib import Path
from typing import Any

import pytest

from mixedmode import secrets
from mixedmode.checkpoint.types import CheckedCheckpoint, Epoch
from mixedmode.driver.events import (
    EpochFailed,
    EpochStarted,
    Event,
    Flipped,
    Notice,
    PhaseBegan,
    PublishedLate,
    RecordsExpired,
    Rescaled,
    RescaleIgnored,
    SparkLogRepaired,
    StepRescaled,
    WentBack,
)
from mixedmode.serve.app import page_files
from mixedmode.serve.live import READY_SECONDS_MIN
from mixedmode.serve.stream import frame
from mixedmode.serve.timeline import KEPT
from tests.harness import ManualClock
from tests.serve import story
from tests.serve.site import committed, served


def test_the_api_tells_the_phases_of_a_job_from_the_start_to_live(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        get = site.client
        assert get("/healthz").body == b"ok\n"
        site.tell(PhaseBegan("starting"))
        assert get("/readyz").status == 503
        site.tell(PhaseBegan("catching up"), EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
        job = get("/api/v1/job").json
        assert (job["name"], job["mode"], job["phase"]) == ("totals", "mixed", "catching up")
        assert job["epoch_under_way"]["kind"] == "backlog"
        site.tell(committed(0), Flipped(at_ms=site.clock.time_ms, after_epoch=Epoch(0)), PhaseBegan("live"))
        site.tell(committed(1))
        job = get("/api/v1/job").json
        assert (job["phase"], job["epoch_under_way"], job["flip"]["after_epoch"]) == ("live", None, 0)
        assert job["totals"]["backlog"] == {"epochs": 1, "records": 100, "rows_out": 10}
        assert [epoch["kind"] for epoch in get("/api/v1/epochs").json["epochs"]] == ["backlog", "live"]
        spans = get("/api/v1/timeline").json["spans"]
        assert [span["kind"] for span in spans] == ["starting", "catching up", "backlog", "live"]
        assert get("/readyz").body == b"ready\n"


@pytest.mark.parametrize("path", [*page_files(), "/healthz", "/readyz", "/metrics", "/api/v1/job", "/nothing"])
def test_every_answer_has_the_headers_that_protect_a_browser(path: str, tmp_path: Path) -> None:
    with served(tmp_path) as site:
        headers = site.client(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
    assert "server" not in headers


def test_a_live_job_is_ready_unless_its_epoch_fails_or_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(ManualClock, "seconds", lambda _self: seconds[0])
    with served(tmp_path) as site:
        site.tell(PhaseBegan("live"), EpochStarted(Epoch(1), is_backlog=False, strategy="streaming"))
        seconds[0] = READY_SECONDS_MIN
        assert site.client("/readyz").status == 200
        seconds[0] += 1
        late = site.client("/readyz")
        assert (late.status, late.body) == (
            503,
            b"not ready: the epoch under way is too old, seconds=31, allowed=30\n",
        )
        site.tell(EpochFailed(Epoch(1), 2, 3, "the disk is full"))
        failed = site.client("/readyz")
        assert (failed.status, failed.body) == (503, b"not ready: the epoch fails, so far 2 times in a row\n")
        site.tell(EpochStarted(Epoch(1), is_backlog=False, strategy="streaming"), committed(1))
        assert site.client("/readyz").status == 200, "an idle job waits for input, and is ready"


def test_the_stream_has_every_kind_of_event_in_order_as_json(tmp_path: Path) -> None:
    events: list[Event] = [
        PhaseBegan("starting"),
        Notice("a source has no files"),
        RecordsExpired("t", "orders", 0, 5, 8),
        SparkLogRepaired(("offsets/3",)),
        WentBack(Epoch(3), (CheckedCheckpoint(Epoch(4), ()),), 2, ("",)),
        PublishedLate(Epoch(3)),
        PhaseBegan("catching up"),
        EpochStarted(Epoch(4), is_backlog=True, strategy="sorted"),
        story.progress(0.5, "sorting", 30),
        EpochFailed(Epoch(4), 1, 3, "the disk is full"),
        committed(4),
        Flipped(5000, Epoch(4)),
        RescaleIgnored("outdated"),
        Rescaled(Epoch(5), (StepRescaled("by_k", 2, 3),), "asked for"),
    ]
    with served(tmp_path) as site:
        connection = site.client.connection()
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (answer.readline(), answer.readline()) == (b"retry: 2000\n", b"\n")
        site.tell(*events)
        found: list[tuple[str, dict[str, Any]]] = []
        while len(found) < len(events):
            name, data, _ = answer.readline(), answer.readline(), answer.readline()
            found.append((name.decode().removeprefix("event: ").strip(), json.loads(data.removeprefix(b"data: "))))
        answer.close()
        connection.close()
    names = [
        *("phase", "notice", "notice", "spark-log-repaired", "went-back", "published-late"),
        *("phase", "epoch-started", "progress"),
        *("epoch-failed", "epoch", "flip", "rescale-ignored", "rescaled"),
    ]
    assert [name for name, _ in found] == names
    assert found[4][1]["damaged"] == [{"epoch": 4, "damages": []}]
    assert found[8][1]["bytes_total"] == 2_400_000_000
    assert found[-1][1]["steps"] == [{"operator_id": "by_k", "before": 2, "now": 3}]


def test_a_secret_of_the_job_is_in_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", 'pa"ss\\wörd')
    password = secrets.resolve("${env:STORE_PASSWORD}")
    with served(tmp_path) as site:
        site.tell(EpochFailed(Epoch(1), 1, 3, f"the store refused user:{password}@host"))
        for path in ("/api/v1/timeline", "/api/v1/job", "/metrics"):
            assert b"rd@host" not in site.client(path).body.replace(b"PASSWORD}@host", b"")
        told = frame("notice", {"text": password})
        assert told == 'event: notice\ndata: {"text":"${env:STORE_PASSWORD}"}\n\n'
        (mark,) = site.client("/api/v1/timeline").json["marks"]
        assert mark["text"].endswith("the store refused user:${env:STORE_PASSWORD}@host")


def test_after_a_restart_the_timeline_begins_with_the_retained_checkpoints(tmp_path: Path) -> None:
    stored = [story.manifest(epoch, 1000 * (epoch + 1)) for epoch in range(3)]
    with served(tmp_path, spec=story.spec(tmp_path), stored=stored) as site:
        site.clock.time_ms = 60_000
        site.job._started_ms = 60_000
        site.tell(PhaseBegan("starting"))
        site.clock.time_ms = 70_000
        site.tell(PhaseBegan("live"), committed(3, created_ms=75_000))
        stored.append(story.manifest(3, 75_000))
        found = site.client("/api/v1/timeline").json
        assert [epoch["epoch"] for epoch in site.client("/api/v1/epochs").json["epochs"]] == [0, 1, 2, 3]
        assert [one["epoch"] for one in site.client("/api/v1/checkpoints").json["checkpoints"]] == [0, 1, 2, 3]
    assert [(span["kind"], span["from_ms"]) for span in found["spans"]] == [
        ("backlog", 1000),
        ("live", 1000),
        ("stopped", 3000),
        ("starting", 60_000),
        ("live", 70_000),
    ]
    assert [mark["kind"] for mark in found["marks"]] == ["flip", "start"]


def test_a_job_that_runs_for_months_keeps_an_answer_of_constant_size(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        for epoch in range(3000):
            site.job(EpochStarted(Epoch(epoch), is_backlog=epoch % 2 == 0, strategy="streaming"))
            site.job(EpochFailed(Epoch(epoch), 1, 3, "again"))
            site.job(committed(epoch))
        assert len(site.client("/api/v1/epochs?limit=2000").json["epochs"]) == 2000
        assert site.client("/api/v1/epochs?limit=3&before=2990").json["epochs"][-1]["epoch"] == 2989
        found = site.client("/api/v1/timeline").json
        assert len(found["spans"]) == len(found["marks"]) == KEPT
