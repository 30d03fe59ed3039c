"""Spark's checkpoint in a store, without Spark: what a second machine gets, after a crash at any request."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.exceptions import GenericError

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.remote_objects import RETRY_SECONDS
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import FencedError, RetryableError
from mixedmode.spark.folder import SparkFolder
from tests.random_cases import random_cases

SERIAL = itertools.count()


class Machine:
    """A start of the job on a machine of its own, and Spark as far as its checkpoint goes: files come, files go."""

    def __init__(self, log: CheckpointLog) -> None:
        self.folder = SparkFolder(log, log.claim_generation())
        self.root = Path(self.folder.location.removeprefix("file://"))
        self.folder.fetch()

    def begin(self, epoch: int, sources: int = 1, text: str = "") -> None:
        """Write the files that Spark writes before it hands an epoch over."""
        if not (self.root / "metadata").exists():
            self.write("metadata", '{"id":"1"}')
        for source in range(sources):
            self.write(f"sources/{source}/{epoch}{'.compact' if epoch % 3 == 2 else ''}", f"files of {epoch} {text}")
        self.write(f"offsets/{epoch}", f"range of {epoch} {text}")

    def end(self, epoch: int) -> None:
        """Write the file that Spark writes after an epoch, and delete the files that it no longer needs."""
        self.write(f"commits/{epoch}", "done")
        for log in ("offsets", "commits", "sources/0"):
            for old in (self.root / log).glob(f"*{epoch - 4}*"):
                old.unlink()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / f".{path.name}.crc").write_text("checksum")
        (path.parent / f".{path.name}.5f1b.tmp").write_text("half")
        path.write_text(text)

    def entries(self) -> dict[str, str]:
        found = [path for path in self.root.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return {path.relative_to(self.root).as_posix(): path.read_text() for path in found}


@pytest.fixture
def log() -> CheckpointLog:
    return new_log()


def new_log() -> CheckpointLog:
    return CheckpointLog(ObjectStore(f"memory:///spark-folder-{next(SERIAL)}"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=random_cases(15))
@given(st.lists(st.booleans(), max_size=8), st.integers(1, 3))
def test_another_machine_gets_all_that_spark_had_when_the_epoch_began(moves: list[bool], sources: int) -> None:
    log = new_log()
    machine = Machine(log)
    for epoch, is_moved in enumerate(moves):
        machine.begin(epoch, sources)
        machine.folder.store_entries(Epoch(epoch))
        machine.folder.store_entries(Epoch(epoch))  # as for an epoch that is repeated
        before = machine.entries()
        if is_moved:
            machine = Machine(log)
            assert machine.entries() == before
        assert machine.folder.offsets(Epoch(epoch)) == f"range of {epoch} ".encode()
        assert machine.folder.offsets(Epoch(epoch + 1)) is None
        machine.end(epoch)
    stored = {path.removeprefix("spark/") for path, _ in log.store.list(paths.SPARK)}
    assert not any(name.endswith((".crc", ".tmp")) for name in stored)
    assert len(stored) <= 1 + 5 + 5 + sources * len(moves), "what Spark has purged goes from the store, too"


def test_a_crash_at_any_request_leaves_no_offsets_without_what_they_refer_to(
    log: CheckpointLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RETRY_SECONDS, "0")
    machine = Machine(log)
    machine.begin(0)
    machine.folder.store_entries(Epoch(0))
    machine.end(0)
    machine.begin(1, sources=2)
    failures = 0
    for allowed in crash_points(monkeypatch):
        try:
            machine.folder.store_entries(Epoch(1))
        except RetryableError:
            failures += 1
            stored = {path for path, _ in log.store.list(paths.SPARK)}
            assert "spark/offsets/1" not in stored or {"spark/sources/0/1", "spark/sources/1/1"} <= stored, allowed
        else:
            break
    monkeypatch.undo()
    assert failures >= 3, "each request has failed once"
    assert Machine(log).entries() == machine.entries()


def crash_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Lets 0, 1, 2 ... writes through."""
    real_put = obstore.put
    for allowed in range(10):
        left = iter(range(allowed))

        def put(*arguments: Any, left: Iterator[int] = left, **named: Any) -> object:
            if next(left, None) is None:
                message = "the network is down"
                raise GenericError(message)
            return real_put(*arguments, **named)

        monkeypatch.setattr("mixedmode.checkpoint.remote_objects.obstore.put", put)
        yield allowed


def test_an_older_start_stores_nothing_any_more(log: CheckpointLog) -> None:
    older = Machine(log)
    Machine(log)
    older.begin(0)
    with pytest.raises(FencedError, match="a newer start of this job has taken over"):
        older.folder.store_entries(Epoch(0))
    assert not log.store.list(paths.SPARK)


def test_of_two_ranges_for_one_epoch_the_second_is_refused(log: CheckpointLog) -> None:
    older, newer = Machine(log), Machine(log)
    older.begin(0, text="older")
    for name, text in older.entries().items():
        assert log.store.put_new(f"spark/{name}", text.encode()), "as by an older start that was past its check"
    newer.begin(0, text="newer")
    with pytest.raises(FencedError) as caught:
        newer.folder.store_entries(Epoch(0))
    assert str(caught.value) == (
        "another start of the job has recorded something else for this epoch, so this one stops and commits nothing. "
        "Nothing is lost: the other one goes on. If none is running any more, start the job again; it goes on with "
        f"what was recorded. file={log.store.url}/spark/sources/0/0"
    )
    assert Machine(log).entries() == older.entries(), "the start after it goes on with the first one"


def test_fetching_again_forgets_what_was_cut_off_the_store(log: CheckpointLog) -> None:
    machine = Machine(log)
    for epoch in range(3):
        machine.begin(epoch)
        machine.folder.store_entries(Epoch(epoch))
        machine.end(epoch)
    log.store.delete(["spark/offsets/2", "spark/commits/1", "spark/sources/0/2.compact"])
    machine.folder.fetch()
    assert set(machine.entries()) == {"metadata", "offsets/0", "offsets/1", "commits/0", "sources/0/0", "sources/0/1"}
    machine.begin(2, text="again")
    machine.folder.store_entries(Epoch(2))
    assert log.store.get("spark/offsets/2") == b"range of 2 again"


def test_the_local_folder_goes_with_the_run(log: CheckpointLog) -> None:
    machine = Machine(log)
    with machine.folder:
        machine.begin(0)
        assert machine.root.exists()
    assert not machine.root.parent.exists()


def test_spark_writes_into_a_local_checkpoint_folder_itself(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore((tmp_path / "check points").as_uri()))
    machine = Machine(log)
    assert machine.folder.location == f"file://{tmp_path}/check points/spark"
    machine.begin(0)
    before = list(log.store.list(paths.SPARK))
    machine.folder.store_entries(Epoch(0))
    machine.folder.fetch()
    machine.folder.__exit__(None, None, None)
    assert list(log.store.list(paths.SPARK)) == before
    assert machine.folder.offsets(Epoch(0)) == b"range of 0 "
