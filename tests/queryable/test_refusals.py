"""A read that cannot be answered is refused with the reason and what to do, never with an empty table."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from mixedmode import open_state, read_state
from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.queryable.keys import key_of_text, question_of
from mixedmode.queryable.spans import EVERYTHING
from tests.config.test_outside_texts import ODD
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import counts, row


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = RunningJob(tmp_path_factory.mktemp("job"), lambda job: job.key_by("k", "v").aggregate(n="count(*)"))
    job.epoch([row("a", 1, 0)])
    return job.checkpoints


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"keys": ["a"]}, "the number of values does not fit the key. Name a value of each column: k string, v int64."),
        ({"keys": "ab"}, "keys is a list of keys. Put a single one into a list. keys='ab'"),
        ({"keys": {"k": "a"}}, "keys is a list of keys. Put a single one into a list. keys={'k': 'a'}"),
        ({"keys": [("a", "x")]}, "a value does not fit its key column. column=v, type=int64, value='x'"),
        ({"keys": [{"k": "a"}]}, "a key column is missing. Name a value of each. missing=v"),
        ({"keys": [{"k": "a", "w": 1}]}, "the key has no column w."),
        ({"keys": [("a", 1)], "prefix": "a"}, "name either keys or a prefix of keys"),
        ({"prefix": ("a", 1, 2)}, "the number of values does not fit the key."),
        ({"prefix": {"v": 1}}, "a key column is missing."),
        ({"limit": 0}, "a page has at least one key. limit=0"),
        ({"after": "x"}, "`after` is not the `next` of a page."),
        ({"after": "7.1.0-AAAA"}, "there is no checkpoint of this epoch. Name one that is kept: 0. epoch=7"),
    ],
)
def test_unsuitable_arguments_are_refused(checkpoints: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJobError) as refused:
        read_state(checkpoints, "aggregate-1", **arguments)
    assert said in str(refused.value)


@pytest.mark.parametrize("kind", ["string", "int64", "float64", "bool_", "date32", "timestamp", "decimal", "binary"])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("is_prefix", [True, False])
def test_every_text_is_a_key_or_refused(kind: str, columns: int, is_prefix: bool) -> None:
    kinds = {"timestamp": pa.timestamp("us", "UTC"), "decimal": pa.decimal128(10, 2)}
    fields = [pa.field(f"k{number}", kinds.get(kind) or getattr(pa, kind)()) for number in range(columns)]
    refusals: list[str] = []
    for text in ODD:
        try:
            key = key_of_text(text, fields, is_prefix=is_prefix)
            keys, prefix = (None, key) if is_prefix else ([key], None)
            assert question_of(keys, prefix, fields, max_parallelism=16) != EVERYTHING
        except InvalidJobError as error:
            refusals.append(str(error))
    assert refusals
    assert all(len(text.encode()) < 1000 for text in refusals)


def test_a_page_of_another_epoch_is_refused(checkpoints: Path) -> None:
    with open_state(checkpoints) as state, pytest.raises(InvalidJobError, match="Read all pages at one epoch"):
        state.read("aggregate-1", after="7.1.0-AAAA")


@pytest.mark.parametrize("seconds", [-1, 3601])
def test_a_lease_beyond_an_hour_is_refused(checkpoints: Path, seconds: float) -> None:
    with pytest.raises(InvalidJobError, match="at most an hour"):
        open_state(checkpoints, lease_seconds=seconds)


def test_a_lease_that_cannot_be_written_is_refused_with_the_cause(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object, **_named: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LocalFiles, "put_unsynced", fail)
    with pytest.raises(RetryableError, match=r"^the reader cannot write its lease.*\(--no-lease\).* no space is left"):
        open_state(checkpoints)


def test_nothing_is_written_without_a_lease(checkpoints: Path) -> None:
    before = sorted(checkpoints.rglob("*"))
    with open_state(checkpoints, lease_seconds=0) as state:
        assert state.read("aggregate-1").table.num_rows == 1
        assert sorted(checkpoints.rglob("*")) == before
        assert state.renew()


def windows_by_bounds(job: Any) -> Any:
    windows = job.key_by("k").window(tumbling="1m").aggregate(n="count(*)")
    return windows.key_by("window_start", "window_end").aggregate(n="sum(n)")


@pytest.mark.parametrize(
    ("build", "step", "arguments", "said"),
    [
        (windows_by_bounds, "aggregate-2", {}, "this step keeps no state"),
        (lambda job: job.window(tumbling="1m").aggregate(n="count(*)"), "aggregate-1", {"keys": [1]}, "has no key"),
        (counts, "aggregate-l", {}, "Did you mean aggregate-1?"),
        (counts, "aggregate-1", {"name": "windows"}, "Its parts: result."),
    ],
)
def test_what_a_step_does_not_have_is_refused(
    tmp_path: Path, build: Callable[[Any], Any], step: str, arguments: dict[str, Any], said: str
) -> None:
    job = RunningJob(tmp_path, build)
    job.epoch([row("a", 1, 0)])
    with pytest.raises(InvalidJobError) as refused:
        read_state(job.checkpoints, step, **arguments)
    assert said in str(refused.value)
