"""Checkpoint folders by HTTP, without a running job: the same page and API, several jobs, and no control."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity
from mixedmode.errors import InvalidJobError
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site, _is_new
from mixedmode.serve.folders import Manifests, open_folders
from mixedmode.serve.server import Endpoint, Server
from mixedmode.serve.view import Readiness
from tests.checkpoint.committed import Checkpoints
from tests.harness import ManualClock, checkpoint_log
from tests.serve import story
from tests.serve.site import NO_TOKEN_CONTROL, Client

ENDPOINT = Endpoint(parse_address("0"), Tokens())


def folder_of_story(folder: Path, *, epochs: int = 6, name: str = "orders") -> Path:
    """A checkpoint folder with the epochs of the story; the fourth is of another start, and has other subtasks."""
    log = checkpoint_log(folder)
    log.create_identity(JobIdentity(name, 128, {}))
    for epoch in range(epochs):
        start, subtasks = (1, 4) if epoch < 4 else (2, 6)
        manifest = story.manifest(epoch, 1000 * (epoch + 1), start=start, subtasks=subtasks)
        log.commit(manifest, CommitPermit(manifest.epoch, manifest.generation))
    return folder


def test_several_folders_are_several_jobs_with_their_epochs_and_timelines(tmp_path: Path) -> None:
    places = [str(folder_of_story(tmp_path / name)) for name in ("a", "b")]
    Checkpoints(tmp_path / "c", JobIdentity("totals", 128, {"totals": {}})).commit(0)
    jobs = open_folders([*places, str(tmp_path / "c")])
    with Server(Site(jobs), ENDPOINT) as server:
        get = Client(server.port)
        assert get("/api/v1/jobs").json == {"jobs": ["orders", "orders-2", "totals"], "is_live": False}
        assert get("/readyz").status == get("/").status == 200
        job = get("/api/v1/job?job=orders-2").json
        assert (job["name"], job["folder"], job["checkpoints"]) == ("orders", str(tmp_path / "b"), 6)
        assert (job["phase"], job["is_running"], job["operations"]) == ("unknown", None, [])
        epochs = get("/api/v1/epochs?limit=2&before=5").json["epochs"]
        assert [epoch["epoch"] for epoch in epochs] == [3, 4]
        assert epochs[0]["steps"]["sessions"]["subtasks"] == 4
        timeline = get("/api/v1/timeline").json
        assert timeline["spans"] == [
            {"kind": "backlog", "from_ms": 1000, "to_ms": 1000},
            {"kind": "live", "from_ms": 1000, "to_ms": 6000},
            {"kind": "stopped", "from_ms": 6000, "to_ms": None},
        ]
        assert [(mark["kind"], mark["at_ms"]) for mark in timeline["marks"]] == [
            ("flip", 1000),
            ("start", 4000),
            ("rescale", 4000),
        ]
        assert len(get("/api/v1/checkpoints?job=totals").json["checkpoints"]) == 1
        assert get("/metrics").status == 404
        get.headers = NO_TOKEN_CONTROL
        assert get("/api/v1/stop", "POST").status == 404


def test_a_damaged_manifest_is_shown_as_damaged_and_the_others_stay(tmp_path: Path) -> None:
    folder = folder_of_story(tmp_path / "a")
    (folder / paths.manifest_path(Epoch(2))).write_bytes(b"{")
    (job,) = open_folders([str(folder)])
    found = job.checkpoints()
    assert [one["epoch"] for one in found if "error" in one] == [2]
    assert [epoch["epoch"] for epoch in job.epochs(10)] == [0, 1, 3, 4, 5]
    assert job.job()["newest_epoch"]["epoch"] == 5


def test_a_folder_that_is_deleted_and_made_anew_by_another_job_is_shown_as_that_job(tmp_path: Path) -> None:
    folder = folder_of_story(tmp_path / "a")
    (job,) = open_folders([str(folder)], ManualClock())  # a second passes with each look
    assert (job.job()["name"], job.job()["max_parallelism"], job.job()["checkpoints"]) == ("orders", 128, 6)
    shutil.rmtree(folder)
    assert (job.job()["name"], job.job()["checkpoints"]) == ("orders", 0)
    assert job.readiness() == Readiness(is_ready=False, reason="the job is gone from its folder")
    Checkpoints(folder, JobIdentity("totals", 64, {"sums": {"step": "aggregate", "keys": ["k"]}})).commit(0)
    shown = job.job()
    assert job.readiness().is_ready
    assert (job.id, shown["id"], shown["name"]) == ("orders", "orders", "totals")
    assert (shown["max_parallelism"], shown["checkpoints"]) == (64, 1)
    assert [node["id"] for node in shown["graph"]["nodes"] if node["kind"] == "step"] == ["step:sums"]


def test_a_paused_job_is_shown_as_paused(tmp_path: Path) -> None:
    folder = folder_of_story(tmp_path / "a")
    (job,) = open_folders([str(folder)], ManualClock())
    record = PauseRecord(checkpoint_log(folder).store)
    record.create(0)
    assert job.job()["phase"] == "paused"
    record.delete()
    assert job.job()["phase"] == "unknown"


def test_what_is_no_checkpoint_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=f"folder={tmp_path}"):
        open_folders([str(folder_of_story(tmp_path / "a")), str(tmp_path)])


def test_a_manifest_is_read_once_until_the_newest_one_is_another(tmp_path: Path) -> None:
    folder = folder_of_story(tmp_path / "a", epochs=3)
    manifests = Manifests(checkpoint_log(folder), ManualClock())  # a second passes with each look

    def replace_manifest(epoch: int, records: int) -> None:
        (folder / paths.manifest_path(Epoch(epoch))).unlink()
        other = replace(story.manifest(epoch, 9000, records=records), generation=Generation(5))
        checkpoint_log(folder).commit(other, CommitPermit(other.epoch, other.generation))

    def records() -> list[int]:
        return [one["records"] for one in manifests.documents()]

    assert records() == [100] * 3
    replace_manifest(0, 5)
    assert records() == [100] * 3, "the document is kept, since a manifest never changes"
    replace_manifest(2, 7)
    assert records() == [5, 100, 7], "a job that has gone back, or begun anew, has written it"
    (folder / paths.manifest_path(Epoch(2))).unlink()
    assert records() == [5, 100]


def test_the_stream_over_a_folder_tells_new_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.serve.app.POLL_SECONDS", 0.01)
    folder = folder_of_story(tmp_path / "a", epochs=2)
    jobs = open_folders([str(folder)], ManualClock())
    with Server(Site(jobs), ENDPOINT) as server:
        connection = Client(server.port).connection()
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()
        assert answer.readline() == b"retry: 2000\n"
        assert (answer.readline(), answer.readline()) == (b"\n", b": still here\n"), "the epochs until now are known"
        threading.Thread(target=folder_of_next, args=(folder,)).start()
        lines = iter(answer.readline, b"")
        assert next(line for line in lines if line.startswith(b"event")) == b"event: epoch\n"
        assert next(lines).startswith(b'data: {"epoch":2,"kind":"live"')
        answer.close()
        connection.close()


@pytest.mark.parametrize(
    ("now", "new"),
    [
        ([(3, 30), (4, 40)], []),
        ([(3, 30), (4, 40), (5, 50)], [5]),
        ([(2, 20), (3, 30)], []),  # a job that went back
        ([(0, 70), (1, 80)], [0, 1]),  # a job that began anew
        ([(3, 70)], [3]),
        ([(3, 30), (4, 70), (5, 80)], [4, 5]),
    ],
)
def test_the_stream_tells_epochs_that_come_after_the_known_ones_or_replace_them(
    now: list[tuple[int, int]], new: list[int]
) -> None:
    documents = [{"epoch": epoch, "committed_ms": at} for epoch, at in now]
    assert [one["epoch"] for one in documents if _is_new(one, {3: 30, 4: 40})] == new


def folder_of_next(folder: Path) -> None:
    """Commit one more epoch."""
    manifest = story.manifest(2, 5000)
    checkpoint_log(folder).commit(manifest, CommitPermit(manifest.epoch, manifest.generation))
