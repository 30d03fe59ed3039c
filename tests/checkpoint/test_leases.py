"""A leased checkpoint stays readable, whatever the order of the steps of its reader, the job and the collection."""

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.gc import collect_orphans
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.manifest import encode_manifest
from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Lease, Manifest
from tests.checkpoint.examples import a_manifest, a_run

SERIAL = itertools.count()
NOW_MS = 1_000_000
OPERATIONS = ("put_unsynced", "exists", "list", "delete", "get")


@pytest.fixture
def log() -> CheckpointLog:
    return CheckpointLog(ObjectStore(f"memory:///leases-{next(SERIAL)}"))


def committed(log: CheckpointLog, epochs: int) -> list[Manifest]:
    """Checkpoints of which each names the run of its own epoch and of the epoch before, and no later one the older."""
    runs = [a_run(epoch) for epoch in range(epochs)]
    found = [a_manifest(epoch, runs=runs[max(0, epoch - 1) : epoch + 1]) for epoch in range(epochs)]
    for run, manifest in zip(runs, found, strict=True):
        log.store.put_new(run.path, b"state")
        log.store.put_new(paths.manifest_path(manifest.epoch), encode_manifest(manifest))
    return found


def take(log: CheckpointLog, manifest: Manifest, lasts_ms: int = 1_000) -> Lease | None:
    return Leases(log.store).take(manifest, now_ms=NOW_MS, lasts_ms=lasts_ms, token="reader")


def drop(log: CheckpointLog, retained: list[Manifest], now_ms: int = NOW_MS) -> None:
    drop_old_checkpoints(log, retained, num_retained=1, now_ms=now_ms)


def are_readable(log: CheckpointLog, manifest: Manifest) -> bool:
    return all(log.store.exists(run.path) for operator in manifest.operators for run in operator.runs)


def test_a_lease_keeps_its_checkpoint_and_newer_ones_until_it_ends(log: CheckpointLog) -> None:
    retained = committed(log, 5)
    assert take(log, retained[2]) is not None
    drop(log, retained)
    assert log.epochs() == (2, 3, 4)
    drop(log, retained, now_ms=NOW_MS + 1_000)
    assert (log.epochs(), Leases(log.store).all()) == ((4,), ()), "the job deletes the file of a lease that has ended"
    assert [path for path, _ in log.store.list(paths.RUNS)] == [a_run(3).path, a_run(4).path]


def test_a_lease_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    (manifest,) = committed(log, 1)
    first = take(log, manifest)
    assert first is not None
    Leases(log.store).give_up([first])
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert take(log, manifest) is not None
    assert synced == []
    assert log.store.put_new("durable", b"x")
    assert len(synced) == 2, "the file and its folder"


def test_a_lease_that_is_given_up_keeps_nothing(log: CheckpointLog) -> None:
    retained = committed(log, 3)
    lease = take(log, retained[0])
    assert lease is not None
    Leases(log.store).give_up([lease])
    drop(log, retained)
    assert log.epochs() == (2,)


def test_a_dropped_checkpoint_cannot_be_leased(log: CheckpointLog) -> None:
    retained = committed(log, 3)
    oldest = retained[0]
    drop(log, retained)
    assert take(log, oldest) is None
    assert Leases(log.store).all() == ()


def test_a_reader_makes_no_folders_where_the_checkpoint_folder_was_deleted(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "checkpoints"))
    (manifest,) = committed(log, 1)
    shutil.rmtree(tmp_path / "checkpoints")
    assert take(log, manifest) is None
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("changed", [{"generation": Generation(9)}, {"created_ms": 9}])
def test_a_checkpoint_that_another_one_of_its_epoch_replaced_cannot_be_leased(
    log: CheckpointLog, changed: dict[str, Any]
) -> None:
    old = committed(log, 3)[2]
    path = paths.manifest_path(old.epoch)
    log.store.delete([path])
    log.store.put_new(path, encode_manifest(replace(old, **changed)))
    assert take(log, old) is None
    assert Leases(log.store).all() == ()
    assert take(log, replace(old, **changed)) is not None


def test_a_damaged_lease_does_not_stop_the_job(log: CheckpointLog) -> None:
    retained = committed(log, 3)
    log.store.put_new(paths.lease_path(Lease(Epoch(2), NOW_MS + 1, "a")), b"\xff")
    drop(log, retained)
    collect_orphans(log, sinks=[])
    assert log.epochs() == (2,)


class Turns:
    """Lets two threads do one store operation at a time, in a given order; a thread that has ended is passed over."""

    def __init__(self, order: str) -> None:
        self._order = list(order)
        self._ended = set[str]()
        self._changed = threading.Condition()

    def take(self, name: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._next() in (name, None), timeout=20)
            if self._order:
                self._order.pop(0)
            self._changed.notify_all()

    def end(self, name: str) -> None:
        with self._changed:
            self._ended.add(name)
            self._changed.notify_all()

    def _next(self) -> str | None:
        while self._order and self._order[0] in self._ended:
            self._order.pop(0)
        return self._order[0] if self._order else None


def orders() -> Iterator[str]:
    for places in itertools.combinations(range(9), 3):
        yield "".join("R" if place in places else "J" for place in range(9))


@pytest.mark.parametrize("order", [*orders()])
def test_no_order_of_steps_takes_a_run_from_a_reader_that_has_a_lease(
    log: CheckpointLog, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    retained = committed(log, 4)
    read, turns, found = retained[1], Turns(order), list[Lease | None]()
    for name in OPERATIONS:
        monkeypatch.setattr(ObjectStore, name, in_turn(turns, getattr(ObjectStore, name)))

    def reader() -> None:
        found.append(take(log, read))

    threads = [threading.Thread(target=ending(turns, name, work), name=name) for name, work in
               (("R", reader), ("J", lambda: drop(log, retained)))]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    (lease,) = found
    assert log.epochs()[-1] == 3
    if lease is not None:
        collect_orphans(log, sinks=[])
        assert are_readable(log, read)
        Leases(log.store).give_up([lease])
    drop(log, retained)
    collect_orphans(log, sinks=[])
    assert [path for path, _ in log.store.list(paths.RUNS)] == [a_run(2).path, a_run(3).path], "nothing stays for ever"


def in_turn(turns: Turns, operation: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if threading.current_thread().name in ("R", "J"):
            turns.take(threading.current_thread().name)
        return operation(*arguments)

    return call


def ending(turns: Turns, name: str, work: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        try:
            work()
        finally:
            turns.end(name)

    return call
