"""An S3 store on a network that fails: each fault at each request, and a store that stays away.

What a call says has to be true of the store afterwards; whether its answers get lost on the way is the network's.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError

from mixedmode.checkpoint import remote_objects
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.log import CheckpointLog, Committed
from mixedmode.checkpoint.remote_objects import RETRY_SECONDS, _client_options
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import JobIdentity
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sinks.publish import OutputDescription, describe_output
from tests.checkpoint.examples import a_manifest
from tests.faults.proxy import AFTER, EVERY_FAULT, SLOW_SECONDS, Fault, FaultProxy, fault_proxy, once, seeded
from tests.s3 import S3Server, environment

IDENTITY = JobIdentity("job", 8, {})
LARGE = os.urandom(9_000_000)  # more than one part


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with fault_proxy(s3.port) as proxy:
        for name, value in environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_TIMEOUT", "1500ms")
        monkeypatch.setattr(remote_objects, "_PAUSE_SECONDS", 0.005)
        yield proxy


@pytest.fixture
def store(s3: S3Server, proxy: FaultProxy) -> ObjectStore:
    return ObjectStore(f"{s3.new_bucket()}/checkpoints")


def fetched(store: ObjectStore, folder: Path) -> bytes:
    assert store.fetch_file("large", folder / "fetched")
    data = (folder / "fetched").read_bytes()
    (folder / "fetched").unlink()
    return data


def stored(store: ObjectStore, folder: Path) -> bytes | None:
    (folder / "local").write_bytes(LARGE)
    store.put_file(folder / "local", "new")
    return store.get("new")


def replaced(store: ObjectStore, _: Path) -> bytes | None:
    store.put("small", b"22")
    return store.get("small")


def deleted(store: ObjectStore, _: Path) -> list[tuple[str, int]]:
    store.delete(["small"])
    return list(store.list())


#: what is asked, and what it gives, over a store that holds "large" and "small" and no "new"
CALLS: dict[str, tuple[Callable[[ObjectStore, Path], object], object]] = {
    "put_new": (lambda store, _: (store.put_new("new", b"1"), store.get("new")), (True, b"1")),
    "put_new of a taken name": (lambda store, _: (store.put_new("small", b"1"), store.get("small")), (False, b"x")),
    "put": (replaced, b"22"),
    "put_file": (stored, LARGE),
    "get": (lambda store, _: store.get("large"), LARGE),
    "get of nothing": (lambda store, _: store.get("none"), None),
    "fetch_file": (fetched, LARGE),
    "size": (lambda store, _: store.size("large"), len(LARGE)),
    "list": (lambda store, _: list(store.list()), [("large", len(LARGE)), ("small", 1)]),
    "delete": (deleted, [("large", len(LARGE))]),
    "rename": (lambda store, _: (store.rename("small", "new"), list(store.list("new")), store.get("new"),
                                 store.exists("small")), (True, [], b"x", False)),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_every_call_says_what_is_so_whichever_fault_its_first_request_meets(
    store: ObjectStore, proxy: FaultProxy, tmp_path: Path, call: str
) -> None:
    ask, expected = CALLS[call]
    for fault in EVERY_FAULT:
        store.put("large", LARGE)
        store.put("small", b"x")
        store.delete(["new"])
        proxy.plan = once(fault)
        assert ask(store, tmp_path) == expected, fault
        assert fault in proxy.faults_met()
        proxy.plan = once(Fault.NONE)


@pytest.mark.parametrize("call", ["put_new", "get", "delete", "rename"])
def test_a_request_that_is_not_answered_is_given_up_and_repeated(
    store: ObjectStore, proxy: FaultProxy, tmp_path: Path, call: str
) -> None:
    ask, expected = CALLS[call]
    store.put("large", LARGE)
    store.put("small", b"x")
    proxy.plan = once(Fault.STUCK)
    assert ask(store, tmp_path) == expected
    assert Fault.STUCK in proxy.faults_met()


def test_calls_get_through_a_network_on_which_every_third_request_fails(
    store: ObjectStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.plan = seeded(3, share=1 / 3)
    for number in range(15):
        data = os.urandom(number * 10)
        assert store.put_new(f"m/{number}", data)
        assert not store.put_new(f"m/{number}", b"other")
        assert store.get(f"m/{number}") == data
    assert len(store.list("m")) == 15
    assert proxy.faults_met() == set(EVERY_FAULT)


@pytest.mark.parametrize("fault", sorted(AFTER, key=str))
def test_exactly_one_of_many_creators_wins_though_every_first_answer_is_lost(
    store: ObjectStore, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.plan = lambda request: fault if request.method == "PUT" and request.number < 8 else Fault.NONE
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: store.put_new("m", str(number).encode()), range(8)))
    assert sum(won) == 1
    assert store.get("m") == str(won.index(True)).encode()


@pytest.mark.parametrize("fault", [*sorted(AFTER, key=str), Fault.STUCK])
def test_a_lost_answer_skips_no_generation_and_doubles_no_commit(
    store: ObjectStore, proxy: FaultProxy, fault: Fault
) -> None:
    log = CheckpointLog(store)
    for expected in (1, 2):
        proxy.plan = once(fault, "PUT", "generations/")
        assert log.claim_generation() == expected
    proxy.plan = once(fault, "PUT", "job.json")
    assert log.create_identity(IDENTITY) == IDENTITY
    proxy.plan = once(fault, "PUT", "manifests/")
    first = a_manifest()
    assert log.commit(first, CommitPermit(first.epoch, first.generation)) == Committed(first)
    proxy.plan = once(fault, "PUT", "_mixedmode")
    description = OutputDescription("job", "continuous", "parquet", (), ())
    describe_output(store, description)
    describe_output(store, description)


def test_two_starts_whose_answers_get_lost_hold_different_generations(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.plan = lambda request: Fault.CUT_AFTER if request.method == "PUT" and request.number < 12 else Fault.NONE
    with ThreadPoolExecutor(6) as pool:
        claimed = list(pool.map(lambda _: CheckpointLog(store).claim_generation(), range(6)))
    assert len(set(claimed)) == 6


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault.THROTTLED, "the store answered '503 Service Unavailable', though it was asked for up to 0.5 s. Wait"),
        (Fault.FAILED_BEFORE, "the store answered '500 Internal Server Error', though it was asked for up to 0.5 s."),
        (Fault.CUT_BEFORE, "the store did not answer, though it was asked for up to 0.5 s. Check that the store can"),
    ],
)
def test_a_store_that_does_not_recover_ends_in_an_error_that_says_so(
    store: ObjectStore, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, fault: Fault, says: str
) -> None:
    monkeypatch.setenv(RETRY_SECONDS, "0.5")
    proxy.plan = lambda _: fault
    started = time.monotonic()
    with pytest.raises(RetryableError) as caught:
        store.put_new("m", b"1")
    assert says in str(caught.value)
    assert str(caught.value).endswith(f"then start again; a job resumes. store={store.url}, object=m")
    assert time.monotonic() - started < 10


def test_a_store_that_needs_too_long_for_a_request_is_told_with_the_limit(
    store: ObjectStore, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be healthy, at the end of a slow line: it was said not to answer."""
    store.put("m", b"1")
    monkeypatch.setenv(RETRY_SECONDS, "0.5")
    proxy.plan = lambda _: Fault.STUCK
    requests = (lambda: store.put("m", b"1"), lambda: store.get("m"), store.list)
    with ThreadPoolExecutor() as pool:
        errors = [asked.exception() for asked in [pool.submit(request) for request in requests]]
    for error in errors:
        assert isinstance(error, RetryableError), error
        why, _, how = str(error).partition(": ")[2].partition(". ")
        assert why == "the store completed no request within the time limit of one, though it was asked for up to 0.5 s"
        assert how.startswith("Check the store and the network. If they are only slow, set a longer time in the ")
        assert " such as AWS_TIMEOUT=60s, then start again" in how


def test_a_slow_store_is_told_once_a_minute(
    store: ObjectStore, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A start waits for some 25 answers, and the screen said that it starts Spark."""
    monkeypatch.setattr(remote_objects, "_slowness", remote_objects._Slowness())
    store.put("m", b"1")
    assert not caplog.messages
    monkeypatch.setattr(remote_objects, "_SLOW_SECONDS", SLOW_SECONDS / 2)
    proxy.plan = lambda _: Fault.SLOW
    for _ in range(2):
        store.get("m")
        store.list("folder")
    (line,) = caplog.messages
    assert line.startswith("the object store is slow, and the job waits for it")
    assert line.endswith(" object=m")


def test_a_store_that_is_not_there_ends_in_an_error_that_says_so(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with fault_proxy(s3.port) as gone:
        pass
    for name, value in environment(gone.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(RETRY_SECONDS, "0.5")
    with pytest.raises(RetryableError, match=r"the store did not answer, though it was asked for up to 0\.5 s"):
        ObjectStore(f"{s3.new_bucket()}/c").list()


def test_a_bucket_that_does_not_exist_is_named(proxy: FaultProxy) -> None:
    store = ObjectStore("s3://no-such-bucket/checkpoints")
    with pytest.raises(RetryableError, match=r"the bucket or container does not exist\. Create it"):
        store.put_new("m", b"1")


def test_the_environment_goes_over_the_timeouts() -> None:
    ours = _client_options("s3://b", {})
    assert ours.keys() == {"timeout", "connect_timeout"}
    said = _client_options("s3://b", {"AWS_TIMEOUT": "1s", "AWS_ALLOW_HTTP": "true", "GOOGLE_TIMEOUT": "9s"})
    assert said == {**ours, "timeout": "1s", "allow_http": "true"}
    assert _client_options("gs://b", {"GOOGLE_TIMEOUT": "9s"})["timeout"] == "9s"
    assert _client_options("az://b", {"AZURE_PROXY_URL": "http://p"})["proxy_url"] == "http://p"


def test_a_time_for_retries_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RETRY_SECONDS, "long")
    with pytest.raises(InvalidJobError, match="MIXEDMODE_STORE_RETRY_SECONDS"):
        ObjectStore("s3://b/unparsed-time").get("a")


def test_an_upload_that_the_store_has_ended_is_repeated_and_then_named(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote_objects, "_PAUSE_SECONDS", 0.001)
    put: Any = obstore.put
    ended = list[str]()

    def ends(client: object, path: str, *given: object, **options: int) -> Any:
        if len(ended) < endings:
            ended.append(path)
            message = (
                f"Object at location {path} not found: NoSuchUpload: The upload may have been aborted or completed"
            )
            raise FileNotFoundError(message)
        return put(client, path, *given, **options)

    monkeypatch.setattr(obstore, "put", ends)
    (tmp_path / "run").write_bytes(b"1")
    store, endings = ObjectStore(f"{s3.new_bucket()}/c"), 2
    store.put_file(tmp_path / "run", "run")
    assert (store.get("run"), len(ended)) == (b"1", 2)
    endings = 1000
    with pytest.raises(RetryableError, match="the store has ended an upload before all of its parts had arrived"):
        store.put_file(tmp_path / "run", "run")


def test_an_object_too_large_for_one_copy_is_copied_through_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 copies up to 5 GB in one request, and a subtask may write a larger output."""

    def refuse(*_: object) -> None:
        message = "InvalidRequest: The specified copy source is larger than the maximum allowable size"
        raise GenericError(message)

    data = bytes(range(256)) * 100_000
    store = ObjectStore("memory:///large-copies")
    store.put("staged", data)
    monkeypatch.setattr("mixedmode.checkpoint.remote_objects.obstore.copy", refuse)
    monkeypatch.setattr(remote_objects, "_PAUSE_SECONDS", 0)
    with pytest.raises(RetryableError):
        store.rename("staged", "final")
    assert store.get("staged") == data, "a small object is refused for another reason"
    monkeypatch.setattr(remote_objects, "_COPIED_BYTES_MAX", 1_000_000)
    assert store.rename("staged", "final")
    assert (store.get("staged"), store.get("final")) == (None, data)
    assert not store.rename("staged", "final")
