"""Queryable state by HTTP, beside a run and over a folder: the same rows as read_state, at one epoch."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from pyarrow import ipc

from mixedmode import secrets
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.queryable import kept as kept_module
from mixedmode.queryable import read_state
from mixedmode.queryable.kept import KeptState
from mixedmode.queryable.snapshot import StateAnswer
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site
from mixedmode.serve.folders import open_folders
from mixedmode.serve.running import server_of_run
from mixedmode.serve.server import Endpoint, Server
from mixedmode.serve.state import ARROW, prefers_arrow, rows_document
from tests.config.test_outside_texts import ODD
from tests.queryable.jobs import RunningJob, rows_of
from tests.queryable.test_reads import EPOCHS, counts, row
from tests.serve.site import Answer, Client

READ, STEP = "read-token-of-a-test", "/api/v1/state/aggregate-1"


@contextmanager
def over(job: RunningJob, *, tokens: Tokens = Tokens(), lease_seconds: float = 300) -> Iterator[Client]:  # noqa: B008
    """Serve the folder of a job, as `mixedmode serve` does."""
    jobs = open_folders([str(job.checkpoints)])
    states = {one.id: KeptState(job.checkpoints, lease_seconds=lease_seconds) for one in jobs}
    with Server(Site(jobs, states=states), Endpoint(parse_address("0"), tokens)) as server:
        yield Client(server.port)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> RunningJob:
    """A job with three epochs, whose state is only read."""
    found = RunningJob(tmp_path_factory.mktemp("state") / "job", counts)
    for rows in EPOCHS:
        found.epoch(rows)
    return found


@pytest.fixture(scope="module")
def get(job: RunningJob) -> Iterator[Client]:
    with over(job) as client:
        yield client


def of(get: Client, path: str = STEP, accept: str | None = None, **parameters: Any) -> Answer:
    return get(f"{path}?{urlencode(parameters, doseq=True)}", accept=accept)


def table_of(answer: Answer) -> pa.Table:
    assert answer.headers["content-type"] == ARROW
    return ipc.open_stream(answer.body).read_all()


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"epoch": 0},
    {"key": "a"},
    {"key": ["a", "k7", "zz"]},
    {"key": "[null]"},
    {"prefix": "a"},
    {"limit": 7},
    {"name": "result", "epoch": 1},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_an_answer_has_the_rows_of_read_state_as_json_and_as_arrow(
    get: Client, job: RunningJob, question: dict[str, Any]
) -> None:
    asked = dict(question)
    if "key" in asked:
        keys = asked.pop("key")
        asked["keys"] = [None] if keys == "[null]" else [keys] if isinstance(keys, str) else keys
    expected = read_state(job.checkpoints, "aggregate-1", **asked)
    table = table_of(of(get, accept=ARROW, **question))
    assert table.equals(expected)
    assert table.schema.metadata == expected.schema.metadata
    answer = of(get, **question)
    assert answer.json["rows"] == expected.to_pylist()
    assert answer.json["missing"] == (["zz"] if question.get("key") == ["a", "k7", "zz"] else [])
    assert (answer.json["step"], answer.json["name"]) == ("aggregate-1", "result")
    assert answer.json["epoch"] == int(answer.headers["x-mixedmode-epoch"]) == question.get("epoch", 2)
    following = (expected.schema.metadata or {}).get(b"mixedmode.next")
    assert answer.json["next"] == answer.headers.get("x-mixedmode-next") == (following and following.decode())


def test_pages_are_of_one_epoch_while_the_job_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "TICK_SECONDS", 0.01)
    job = RunningJob(tmp_path / "job", counts)
    job.epoch(EPOCHS[2])
    with over(job) as get:
        first = of(get, limit=20)
        job.epoch([row("new", 1, 9)])
        answers = (of(get, key="new").json for _ in range(1000))
        found = next(answer for answer in answers if answer["epoch"] == 1)
        assert found["rows"] == [{"k": "new", "n": 1, "s": 1, "top": 1}]
        pages, after = [first.json], first.json["next"]
        while after is not None:
            pages.append(of(get, limit=20, after=after).json)
            after = pages[-1]["next"]
        assert [page["epoch"] for page in pages] == [0, 0, 0]
        rows = [row for page in pages for row in page["rows"]]
        assert sorted(rows, key=repr) == rows_of(read_state(job.checkpoints, "aggregate-1", epoch=0))
    assert Leases(ObjectStore(job.checkpoints)).all() == (), "the server gives up its leases when it ends"


def test_the_steps_are_listed_with_their_parts_and_keys(get: Client) -> None:
    key = [{"name": "k", "type": "string"}]
    answer = of(get, "/api/v1/state")
    steps = [{"step": "aggregate-1", "parts": [{"name": "result", "key": key}]}]
    assert answer.json == {"epoch": 2, "steps": steps}
    assert of(get, "/api/v1/state", epoch=0, job="states").json == {"epoch": 0, "steps": steps}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({"limit": 1}, "unknown parameter"),
        ({"epochs": 1}, "unknown parameter. Did you mean epoch"),
        ({"epoch": "new"}, "epoch is not a whole number"),
        ({"epoch": [0, 1]}, "several times"),
        ({"epoch": 10**18 - 1}, "there is no checkpoint of this epoch"),
    ],
    ids=str,
)
def test_a_wrong_question_for_the_steps_is_refused_with_the_reason(
    get: Client, question: dict[str, Any], text: str
) -> None:
    answer = of(get, "/api/v1/state", **question)
    assert (answer.status, text in answer.error) == (400, True), answer.error


def test_before_the_first_checkpoint_every_question_is_answered_with_503(job: RunningJob, tmp_path: Path) -> None:
    site = Site(open_folders([str(job.checkpoints)]), states={"states": KeptState(tmp_path / "not-yet")})
    with Server(site, Endpoint(parse_address("0"), Tokens())) as server:
        get = Client(server.port)
        for path, parameters in (("/api/v1/state", {}), (STEP, {}), (STEP, {"key": "a"}), (STEP, {"epoch": 3})):
            answer = of(get, path, **parameters)
            assert (answer.status, "the job has no state yet" in answer.error) == (503, True), (path, parameters)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({"limit": 0}, "a page has 1 to 10000 keys"),
        ({"limit": 10_001}, "a page has 1 to 10000 keys"),
        ({"limit": "many"}, "limit is not a whole number"),
        ({"epoch": "-1"}, "epoch is not a whole number"),
        ({"epoch": 9}, "there is no checkpoint of this epoch"),
        ({"epoch": 10**18 - 1}, "there is no checkpoint of this epoch"),
        ({"epoch": 10**18 - 1, "key": "a"}, "there is no checkpoint of this epoch"),
        ({"after": f"{10**18 - 1}.1.0-AAAA"}, "there is no checkpoint of this epoch"),
        ({"after": "nothing"}, "not the `next` of a page"),
        ({"after": "9" * 5000}, "not the `next` of a page"),
        ({"after": "0.1.0-AAAA", "epoch": 1}, "the page before is of another epoch"),
        ({"after": "0.1.0-AAAA", "key": "a"}, "leave `after` out"),
        ({"key": "a", "prefix": "b"}, "either keys or a prefix"),
        ({"keys": "a"}, "unknown parameter. Did you mean key"),
        ({"limit": [1, 2]}, "only `key` may occur several times"),
        ({"name": "windows"}, "has no part windows"),
    ],
    ids=str,
)
def test_a_wrong_question_is_refused_with_the_reason(get: Client, question: dict[str, Any], text: str) -> None:
    answer = of(get, **question)
    assert (answer.status, text in answer.error) == (400, True), answer.error
    assert of(get, accept=ARROW, **question).status == (200 if question == {"limit": 10_001} else 400)


@pytest.mark.parametrize("name", ["key", "prefix", "name", "epoch", "limit", "after", "unknown", "job"])
def test_every_text_in_a_question_is_answered_or_refused(get: Client, name: str) -> None:
    for text in ODD:
        value = text.encode("utf-8", "surrogatepass")[:20_000]
        for path in (STEP, "/api/v1/state"):
            answer = get(f"{path}?{name}={quote(value)}")
            assert answer.status in ({400, 404} if name == "job" else {200, 400}), (path, text[:20], answer.body)


def test_an_unknown_step_and_paths_that_leave_the_folder_are_refused(get: Client) -> None:
    assert "no keyed step aggregate" in of(get, "/api/v1/state/aggregate").error
    for path in ("/api/v1/state/..", "/api/v1/state/%2e%2e%2fjob.json", "/api/v1/state/a/b", "/api/v1/state/%00"):
        assert get(path).status in {400, 404}, path
    assert get("/api/v1/state/aggregate-1?job=other").status == 404


def test_state_needs_the_read_token(job: RunningJob) -> None:
    with over(job, tokens=Tokens(read=READ)) as get:
        for path in (STEP, "/api/v1/state"):
            assert get(path).status == 401
            assert get(path, authorization="Bearer wrong").status == 401
            assert get(path, authorization=f"Bearer {READ}").status == 200
            assert get(path, "POST", authorization=f"Bearer {READ}").status in {403, 405}


def test_without_a_lease_nothing_is_written(job: RunningJob) -> None:
    before = sorted(path.name for path in job.checkpoints.rglob("*"))
    with over(job, lease_seconds=0) as get:
        assert len(of(get, limit=3).json["rows"]) == 3
        assert sorted(path.name for path in job.checkpoints.rglob("*")) == before


def test_a_secret_is_named_in_json_and_not_sent_in_an_arrow_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_SALT", "sält and pepper")
    job = RunningJob(tmp_path / "job", counts)
    job.epoch([row(secrets.resolve("${env:STATE_SALT}"), 1, 0), row("b", 2, 0)])
    with over(job) as get:
        assert {one["k"] for one in of(get).json["rows"]} == {"${env:STATE_SALT}", "b"}
        answer = of(get, accept=ARROW)
        assert answer.status == 400
        assert "ält and pepper" not in answer.error
        assert table_of(of(get, accept=ARROW, key="b")).num_rows == 1


def test_a_page_that_is_too_large_is_refused(job: RunningJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.serve.state.PAGE_BYTES_MAX", 300)
    with over(job) as get:
        assert "the page is too large" in of(get).error
        assert of(get, limit=2).status == 200


def test_a_server_beside_a_run_answers_from_the_folder_of_the_run(job: RunningJob) -> None:
    endpoint, event = Endpoint(parse_address("0"), Tokens()), threading.Event
    with server_of_run(job.run._spec, endpoint, stop=event(), drain=event()).server as server:
        found = of(Client(server.port), key="a").json
    assert found["rows"] == read_state(job.checkpoints, "aggregate-1", keys=["a"]).to_pylist()


def test_a_job_without_a_checkpoint_folder_has_no_state(job: RunningJob) -> None:
    checkpointing = job.run._spec.execution.checkpointing.model_copy(update={"dir": None})
    execution = job.run._spec.execution.model_copy(update={"checkpointing": checkpointing})
    spec, event = job.run._spec.model_copy(update={"execution": execution}), threading.Event
    with server_of_run(spec, Endpoint(parse_address("0"), Tokens()), stop=event(), drain=event()).server as server:
        answer = of(Client(server.port))
    assert (answer.status, "no checkpoint folder" in answer.error) == (409, True)


def test_each_kind_of_value_has_a_form_in_json() -> None:
    table = pa.table(
        {
            "bytes": pa.array([b"\x00\xff"]),
            "time": pa.array([0], pa.timestamp("us", "UTC")),
            "day": pa.array([0], pa.date32()),
            "amount": pa.array([Decimal("1.20")]),
            "list": pa.array([[1, None]]),
            "map": pa.array([[(b"k", 1)]], pa.map_(pa.binary(), pa.int64())),
            "record": pa.array([{"x": 1.5, "y": None}]),
            "lasted": pa.array([1_500_000], pa.duration("us")),
            "none": pa.array([None], pa.string()),
        }
    )
    (found,) = rows_document(StateAnswer(table, 1, "s", "n", None), ())["rows"]
    assert json.loads(json.dumps(found)) == {
        "bytes": base64.b64encode(b"\x00\xff").decode(),
        "time": "1970-01-01T00:00:00+00:00",
        "day": "1970-01-01",
        "amount": "1.20",
        "list": [1, None],
        "map": [["aw==", 1]],
        "record": {"x": 1.5, "y": None},
        "lasted": "0:00:01.500000",
        "none": None,
    }


def test_a_time_that_python_cannot_hold_is_shown_as_text() -> None:
    table = pa.table({"time": pa.array([2**58], pa.timestamp("us", "UTC"))})
    (found,) = rows_document(StateAnswer(table, 1, "s", "n", None), ())["rows"]
    assert found == {"time": "11103-08-29 17:22:31.711744Z"}


def test_arrow_is_sent_only_where_the_client_names_it() -> None:
    assert prefers_arrow(f"text/html, {ARROW.upper()} ; q=0.1")
    assert not any(map(prefers_arrow, ("", "*/*", "application/json", "application/vnd.apache.arrow.file")))
