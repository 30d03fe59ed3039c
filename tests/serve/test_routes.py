"""The routes of the server beside a running job: what they answer, and with which headers."""

from pathlib import Path

import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochStarted, Flipped, PhaseBegan
from mixedmode.serve.app import page_files
from tests.serve.site import committed, served


def test_the_api_tells_the_phases_of_a_job_from_the_start_to_live(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        get = site.client
        assert get("/healthz").body == b"ok\n"
        site.tell(PhaseBegan("starting"))
        assert get("/readyz").status == 503
        site.tell(PhaseBegan("catching up"), EpochStarted(Epoch(0), is_backlog=True, path="sorted"))
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
