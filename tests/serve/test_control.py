"""Control by HTTP: savepoint, rescale, stop and drain do what the command line does, or say why not."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.rescale import NOTHING, Subtasks
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import JobIdentity
from mixedmode.driver.events import PhaseBegan
from tests.checkpoint.committed import Checkpoints
from tests.config.test_outside_texts import ODD
from tests.harness import checkpoint_log
from tests.serve.site import NO_TOKEN_CONTROL, Answer, Served, job_spec, served

IDENTITY = JobIdentity("totals", 128, {"aggregate-1": {"keys": ["shop"]}})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    checkpoints = Checkpoints(tmp_path / "checkpoints", IDENTITY)
    checkpoints.commit(0)
    with served(tmp_path, savepoints=str(tmp_path / "savepoints")) as found:
        found.client.headers = NO_TOKEN_CONTROL
        yield found


def asked(site: Served, operation: str, **body: Any) -> Answer:
    return site.client(f"/api/v1/{operation}", "POST", body)


def test_a_savepoint_has_the_name_of_the_request_or_the_time(site: Served, tmp_path: Path) -> None:
    done = asked(site, "savepoint", name="before-the-change")
    assert done.status == 200
    assert (done.json["place"], done.json["epoch"]) == (str(tmp_path / "savepoints" / "before-the-change"), 0)
    assert read_savepoint(ObjectStore(done.json["place"])).epoch == 0
    assert asked(site, "savepoint").json["place"].endswith("/savepoints/2001-09-09T01-46-40")
    texts = [mark["text"] for mark in site.client("/api/v1/timeline").json["marks"]]
    assert texts == ["savepoint before-the-change of epoch 0", "savepoint 2001-09-09T01-46-40 of epoch 0"]
    again = asked(site, "savepoint", name="before-the-change")
    assert (again.status, again.json["error"]["kind"]) == (409, "InvalidJobError")
    assert again.error.startswith("there is a savepoint in this folder already")


@pytest.mark.parametrize(
    "name", ["../elsewhere", "a/b", "/tmp/x", "", ".", "..", "a b", "x" * 101, "s3://bucket", "x\n", 7, []]
)
def test_a_name_cannot_lead_out_of_the_folder_of_savepoints(site: Served, name: object, tmp_path: Path) -> None:
    assert asked(site, "savepoint", name=name).status == 409
    assert not (tmp_path / "savepoints").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_every_text_in_a_request_is_refused_with_the_reason(site: Served, tmp_path: Path) -> None:
    for text in ODD:
        for operation, body in (
            ("savepoint", {"name": f"/{text}"}),
            ("savepoint", {text: 1}),
            ("savepoint", {"name": [text]}),
            ("rescale", {"subtasks": text}),
            ("rescale", {"subtasks": 2, "step": text}),
        ):
            answer = asked(site, operation, **body)
            assert (answer.status, bool(answer.error)) == (409, True), (operation, text[:20])
    nested = b'{"name": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert site.client("/api/v1/savepoint", "POST", nested, content_type="application/json").status == 409
    assert not (tmp_path / "savepoints").exists()


def test_one_savepoint_is_taken_at_a_time(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    is_taking, may_end = threading.Event(), threading.Event()

    def slow(*_given: object, **_named: object) -> object:
        is_taking.set()
        assert may_end.wait(10)
        msg = "the store is slow"
        raise OSError(msg)

    monkeypatch.setattr("mixedmode.serve.control.take_savepoint", slow)
    answers: list[Answer] = []
    first = threading.Thread(target=lambda: answers.append(asked(site, "savepoint", name="one")))
    first.start()
    assert is_taking.wait(10)
    second = asked(site, "savepoint", name="two")
    assert (second.status, second.error) == (409, "another savepoint is being taken; wait until it is done")
    assert site.client("/healthz").status == 200, "the server is not held meanwhile"
    may_end.set()
    first.join(10)
    assert answers[0].status == 500
    assert answers[0].error == "the server failed; its log has the reason", "an unexpected error is in the log only"


def test_without_a_folder_no_savepoint_is_taken(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        site.client.headers = NO_TOKEN_CONTROL
        assert asked(site, "savepoint").error.startswith("the server was started without a folder for savepoints")


def test_a_request_to_rescale_is_stored_and_withdrawn(site: Served, tmp_path: Path) -> None:
    requests = RescaleLog(checkpoint_log(tmp_path / "checkpoints").store)
    assert asked(site, "rescale", subtasks=3).json["text"].startswith("subtasks asked for: 3\n")
    newest = requests.newest()
    assert newest is not None
    assert newest.wanted == Subtasks(3)
    assert asked(site, "rescale", subtasks=2, step="aggregate-1").status == 202
    assert asked(site, "rescale", subtasks=None).status == 202
    newest = requests.newest()
    assert newest is not None
    assert newest.wanted == NOTHING


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"subtasks": "3"},
        {"subtasks": True},
        {"subtasks": 2.5},
        {"subtasks": 0},
        {"subtasks": 129},
        {"subtasks": 2, "step": "unknown"},
        {"subtasks": None, "step": "aggregate-1"},
        {"subtasks": 2, "steps": "aggregate-1"},
    ],
)
def test_a_wrong_request_to_rescale_changes_nothing(site: Served, body: dict[str, Any], tmp_path: Path) -> None:
    assert asked(site, "rescale", **body).status == 409
    assert RescaleLog(checkpoint_log(tmp_path / "checkpoints").store).numbers() == ()


def test_stop_and_drain_set_the_events_of_the_run(site: Served) -> None:
    assert asked(site, "drain").status == 202
    assert (site.control.drain.is_set(), site.control.stop.is_set()) == (True, False)
    assert asked(site, "stop").status == 202
    assert site.control.stop.is_set()
    late = asked(site, "drain")
    assert (late.status, "the job was asked to stop before" in late.error) == (409, True)


def test_pause_and_resume_are_those_of_the_command_line_and_the_page_and_readyz_say_it(site: Served) -> None:
    record = PauseRecord(checkpoint_log(Path(site.control.spec.execution.checkpointing.dir or "")).store)
    site.tell(PhaseBegan("live"))
    assert asked(site, "pause").status == 202
    assert record.is_there()
    site.tell(PhaseBegan("paused"))
    ready = site.client("/readyz")
    assert (ready.status, ready.body) == (503, b"not ready: the job is not live: paused\n")
    assert site.client("/api/v1/job").json["phase"] == "paused"
    timeline = site.client("/api/v1/timeline").json
    assert (timeline["spans"][-1]["kind"], timeline["marks"][-1]["kind"]) == ("paused", "pause")
    assert b'mixedmode_phase{phase="paused"} 1.0' in site.client("/metrics").body
    assert asked(site, "resume").json == {"text": "the job goes on from its position"}
    assert not record.is_there()
    site.tell(PhaseBegan("live"))
    assert site.client("/readyz").status == 200


@pytest.mark.parametrize("operation", ["pause", "resume"])
def test_a_batch_job_cannot_pause(operation: str, tmp_path: Path) -> None:
    with served(tmp_path, spec=job_spec(tmp_path, mode="batch")) as site:
        site.client.headers = NO_TOKEN_CONTROL
        refused = asked(site, operation)
        assert (refused.status, "a batch job cannot pause" in refused.error) == (409, True)


@pytest.mark.parametrize("operation", ["stop", "drain"])
def test_a_batch_job_cannot_end_early(operation: str, tmp_path: Path) -> None:
    with served(tmp_path, spec=job_spec(tmp_path, mode="batch")) as site:
        site.client.headers = NO_TOKEN_CONTROL
        refused = asked(site, operation)
        assert (refused.status, site.control.stop.is_set()) == (409, False)
        assert refused.error.startswith("a batch job is one epoch, and ends with it.")
