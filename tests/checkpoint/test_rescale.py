"""Requests to rescale: which of them count, what a new one keeps of an old one, and what is on disk."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.rescale import (
    NOTHING,
    InForce,
    Outdated,
    RescaleRequest,
    Subtasks,
    amended,
    decide_parallelism,
    decode_request,
    encode_request,
)
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError

FILE = Subtasks(2, {"a": 3})
NUMBERS = st.integers(1, 200)
SUBTASKS = st.builds(Subtasks, st.none() | NUMBERS, st.dictionaries(st.sampled_from("abc"), NUMBERS))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
REQUESTS = st.builds(RescaleRequest, NUMBERS, SUBTASKS, SUBTASKS, st.booleans(), TEXTS, st.integers(0, 2**50))


def a_request(wanted: Subtasks, configured: Subtasks = FILE, *, is_automatic: bool = False) -> RescaleRequest:
    return RescaleRequest(7, wanted, configured, is_automatic, "because" if is_automatic else "", 1_000)


@pytest.mark.parametrize(
    ("wanted", "subtasks"),
    [
        (NOTHING, FILE),
        (Subtasks(4), Subtasks(4, {"a": 3})),
        (Subtasks(None, {"a": 1}), Subtasks(2, {"a": 1})),
        (Subtasks(4, {"b": 1}), Subtasks(4, {"a": 3, "b": 1})),
    ],
)
def test_a_request_goes_over_what_the_job_file_says(wanted: Subtasks, subtasks: Subtasks) -> None:
    assert decide_parallelism(FILE, a_request(wanted), is_made_meanwhile=False) == InForce(subtasks)


def test_without_a_request_the_job_file_counts() -> None:
    assert decide_parallelism(FILE, None, is_made_meanwhile=False) == InForce(FILE)


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (Subtasks(3, {"a": 3}), "then=2, a 3, now=3, a 3"),
        (Subtasks(None, {"a": 3}), "then=2, a 3, now=as many as cores, a 3"),
        (Subtasks(2), "then=2, a 3, now=2"),
        (Subtasks(2, {"a": 4}), "then=2, a 3, now=2, a 4"),
    ],
)
def test_a_job_file_that_was_changed_wins_at_the_next_start(now: Subtasks, shown: str) -> None:
    request = a_request(Subtasks(4))
    decision = decide_parallelism(now, request, is_made_meanwhile=False)
    assert decision == Outdated(
        now,
        "the parallelism in the job file has changed since it was asked to rescale, so the job file counts again. Ask "
        f"once more if that was not meant. {shown}",
    )
    assert decide_parallelism(now, request, is_made_meanwhile=True) == InForce(Subtasks(4).over(now))


def test_asking_for_a_step_leaves_what_was_asked_for_the_job_and_who_did() -> None:
    automatic = a_request(Subtasks(4), is_automatic=True)
    one = amended(automatic, configured=FILE, asked=Subtasks(None, {"b": 1}), created_ms=2_000)
    assert (one.wanted, one.is_automatic, one.reason) == (Subtasks(4, {"b": 1}), True, "because")
    assert one.created_ms == 2_000
    two = amended(one, configured=FILE, asked=Subtasks(5), created_ms=3_000)
    assert (two.wanted, two.is_automatic, two.reason) == (Subtasks(5, {"b": 1}), False, "")


def test_what_was_asked_for_another_job_file_is_forgotten() -> None:
    before = a_request(Subtasks(4, {"b": 1}))
    request = amended(before, configured=Subtasks(9), asked=Subtasks(None, {"c": 2}), created_ms=2_000)
    assert (request.wanted, request.configured) == (Subtasks(None, {"c": 2}), Subtasks(9))


@given(before=REQUESTS, asked=SUBTASKS)
def test_a_new_request_keeps_what_it_does_not_speak_of(before: RescaleRequest, asked: Subtasks) -> None:
    wanted = amended(before, configured=before.configured, asked=asked, created_ms=5).wanted
    assert wanted.job == (before.wanted.job if asked.job is None else asked.job)
    assert wanted.steps == {**before.wanted.steps, **asked.steps}


@given(request=REQUESTS)
def test_a_request_is_read_as_it_was_written(request: RescaleRequest) -> None:
    assert decode_request(encode_request(request), where="here") == request


def test_the_bytes_of_a_request_are_pinned() -> None:
    request = RescaleRequest(3, Subtasks(4, {"Σ": 2}), Subtasks(), is_automatic=True, reason="busy", created_ms=1_700)
    assert encode_request(request) == (
        b'{"kind":"mixedmode-rescale","format_version":1,"checksum":"3ced482b78e1b3d0","content":{"number":3,"wanted":'
        b'{"job":4,"steps":{"\xce\xa3":2}},"configured":{"job":null,"steps":{}},"is_automatic":true,"reason":"busy",'
        b'"created_ms":1700}}\n'
    )


def test_requests_are_numbered_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    log = RescaleLog(ObjectStore(tmp_path))
    assert (log.numbers(), log.newest()) == ((), None)
    for parallelism in (4, 5, 6):
        log.add(lambda newest, n=parallelism: amended(newest, configured=FILE, asked=Subtasks(n), created_ms=1))  # type: ignore[misc]
    assert log.numbers() == (1, 2, 3)
    newest = log.newest()
    assert newest is not None
    assert (newest.number, newest.wanted.job) == (3, 6)
    log.drop(up_to=2)
    assert log.numbers() == (3,)
    log.drop(up_to=3)
    assert (log.numbers(), log.get(3)) == ((), None)


def test_two_who_ask_at_once_both_get_through(tmp_path: Path) -> None:
    log = RescaleLog(ObjectStore(tmp_path))
    together = threading.Barrier(4)

    def ask(step: str) -> None:
        together.wait()
        log.add(lambda newest: amended(newest, configured=FILE, asked=Subtasks(None, {step: 2}), created_ms=1))

    threads = [threading.Thread(target=ask, args=(step,)) for step in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    newest = log.newest()
    assert newest is not None
    assert (newest.number, newest.wanted.steps) == (4, dict.fromkeys("abcd", 2))


def test_a_request_that_cannot_be_read_is_refused_and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    log = RescaleLog(ObjectStore(tmp_path))
    for parallelism in (4, 5):
        log.add(lambda newest, n=parallelism: amended(newest, configured=FILE, asked=Subtasks(n), created_ms=1))  # type: ignore[misc]
    file = tmp_path / paths.rescale_path(2)
    whole, copy = file.read_bytes(), (tmp_path / paths.rescale_path(1)).read_bytes()
    for damaged in (b"", whole[:-9], copy, whole.replace(b'"job":5', b'"job":9')):
        file.write_bytes(damaged)
        with pytest.raises(CorruptStateError, match="so the job keeps the parallelism that it has"):
            log.get(2)
    newest = log.newest()
    assert newest is not None
    assert newest.number == 1
    added = log.add(lambda newest: amended(newest, configured=FILE, asked=Subtasks(6), created_ms=1))
    assert added is not None
    assert added.number == 3
    assert log.add(lambda _newest: None) is None
