"""Reads of the state of each kind of step equal what a plain-Python replay up to the epoch gives."""

import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import InvalidJobError
from mixedmode.queryable import StateSnapshot, open_state, read_state
from tests.queryable.functions import Everything
from tests.queryable.jobs import Row, RunningJob, rows_of


def at(minutes: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def row(k: str | None, v: int | None, minute: float) -> Row:
    return {"k": k, "v": v, "at": minute}


def totals(epochs: Sequence[Sequence[Row]]) -> list[dict[str, Any]]:
    """The oracle of COUNTS: counts, sums and maxima by key."""
    values = defaultdict[Any, list[Any]](list)
    for rows in epochs:
        for each in rows:
            values[each["k"]].append(each["v"])
    found = []
    for key, own in values.items():
        given = [value for value in own if value is not None]
        found.append({"k": key, "n": len(own), "s": sum(given) if given else None, "top": max(given, default=None)})
    return sorted(found, key=repr)


def counts(job: Any) -> Any:
    return job.key_by("k").aggregate(n="count(*)", s="sum(v)", top="max(v)")


EPOCHS = [
    [row("a", 1, 0), row("b", 5, 1), row(None, None, 1)],
    [row("a", 10, 2), row("c", None, 2)],
    [row("a", 2, 3), *(row(f"k{number}", number, 3) for number in range(50))],
]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 4, 3), (8, 1, 2)])
def test_an_aggregate_is_read_at_each_epoch_and_at_each_parallelism(tmp_path: Path, sizes: Sequence[int]) -> None:
    job = RunningJob(tmp_path, counts)
    for rows, size in zip(EPOCHS, sizes, strict=True):
        job.epoch(rows, parallelism=size)
    for epoch in range(len(EPOCHS)):
        found = read_state(job.checkpoints, "aggregate-1", epoch=epoch)
        assert rows_of(found) == totals(EPOCHS[: epoch + 1])
        assert found.schema.metadata[b"mixedmode.epoch"] == str(epoch).encode()
    assert rows_of(read_state(job.checkpoints, "aggregate-1")) == totals(EPOCHS)


def test_keys_are_read_by_value_by_tuple_and_by_name_and_absent_ones_have_no_row(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, counts)
    job.epoch(EPOCHS[0])
    with open_state(job.checkpoints) as state:
        for keys in (["a", "zz", "a"], [("a",)], [{"k": "a"}]):
            assert rows_of(state.read("aggregate-1", keys=keys).table) == [{"k": "a", "n": 1, "s": 1, "top": 1}]
        assert rows_of(state.read("aggregate-1", keys=[None]).table) == [{"k": None, "n": 1, "s": None, "top": None}]
        assert state.read("aggregate-1", keys=[]).table.num_rows == 0


def test_a_prefix_names_the_first_key_columns(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k", "v").aggregate(n="count(*)"))
    job.epoch([row("a", 1, 0), row("a", 2, 0), row("ab", 1, 0), row("a", 1, 0)])
    found = read_state(job.checkpoints, "aggregate-1", prefix="a")
    assert rows_of(found) == [{"k": "a", "v": 1, "n": 2}, {"k": "a", "v": 2, "n": 1}]
    assert read_state(job.checkpoints, "aggregate-1", prefix=("a", "2")).to_pylist() == [{"k": "a", "v": 2, "n": 1}]


@pytest.mark.parametrize("limit", [7, 30, 1000])
def test_pages_together_are_the_whole_scan_at_one_epoch(tmp_path: Path, limit: int) -> None:
    job = RunningJob(tmp_path, counts)
    for rows in EPOCHS:
        job.epoch(rows)
    pages, after = [], None
    while True:
        page = read_state(job.checkpoints, "aggregate-1", limit=limit, after=after)
        assert page.num_rows <= limit
        pages.append(page.replace_schema_metadata())
        if len(pages) == 2:
            job.epoch([row("later", 1, 9)])  # the other pages are still of the epoch of the first one
        after = (page.schema.metadata.get(b"mixedmode.next") or b"").decode() or None
        if after is None:
            break
    assert rows_of(pa.concat_tables(pages)) == totals(EPOCHS)


def test_open_windows_are_read_with_their_bounds_and_fired_ones_are_marked(tmp_path: Path) -> None:
    job = RunningJob(
        tmp_path, lambda job: job.key_by("k").window(tumbling="10m", allowed_lateness="5m").aggregate(s="sum(v)")
    )
    job.epoch([row("a", 1, 1), row("a", 2, 9), row("b", 4, 12)])
    found = read_state(job.checkpoints, "aggregate-1")
    first = {"window_start": at(0), "window_end": at(10), "k": "a", "s": 3, "_fired": True}
    second = {"window_start": at(10), "window_end": at(20), "k": "b", "s": 4, "_fired": False}
    assert sorted(found.to_pylist(), key=lambda one: one["k"]) == [first, second]
    assert read_state(job.checkpoints, "aggregate-1", keys=["b", "zz"]).to_pylist() == [second]
    assert read_state(job.checkpoints, "aggregate-1", prefix="a").to_pylist() == [first]
    job.epoch([row("c", 1, 16)])  # the first window is forgotten
    ends = read_state(job.checkpoints, "aggregate-1").column("window_end").to_pylist()
    assert ends == [at(20), at(20)]


def test_windows_without_a_key_are_read(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.window(sliding="10m", slide="5m").aggregate(n="count(*)"))
    job.epoch([row("a", 1, 7), row("b", 1, 7)])
    bounds = [{"window_start": at(s), "window_end": at(s + 10), "n": 2, "_fired": False} for s in (0, 5)]
    assert read_state(job.checkpoints, "aggregate-1").to_pylist() == bounds


def test_sessions_are_read_by_key_with_their_bounds(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").window(session="5m").aggregate(n="count(*)"))
    job.epoch([row("a", 1, 0), row("a", 1, 3), row("b", 1, 2)])
    session = {"window_start": at(0), "window_end": at(8), "k": "a", "n": 2, "_fired": False}
    assert read_state(job.checkpoints, "aggregate-1", keys=["a"]).to_pylist() == [session]
    assert read_state(job.checkpoints, "aggregate-1").num_rows == 2


def test_an_open_count_window_is_read_and_a_full_one_is_gone(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").window(count=2).aggregate(s="sum(v)"))
    job.epoch([row("a", 1, 0), row("a", 2, 1), row("a", 4, 2), row("b", 1, 1), row("b", 1, 2)])
    found = read_state(job.checkpoints, "aggregate-1").to_pylist()
    assert [(one["k"], one["window_number"], one["window_start"], one["s"]) for one in found] == [("a", 1, at(2), 4)]


def test_the_ranks_of_a_top_are_read(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").top(2, order_by="v desc"))
    job.epoch([row("a", value, 0) for value in (3, 9, 5)] + [row("b", 1, 0)])
    found = read_state(job.checkpoints, "top-1")
    assert sorted((one["k"], one["rank"], one["v"]) for one in found.to_pylist()) == [
        ("a", 1, 9),
        ("a", 2, 5),
        ("b", 1, 1),
    ]
    page = read_state(job.checkpoints, "top-1", limit=1)  # a key with all of its ranks
    assert page.num_rows in (1, 2)
    assert len(set(page.column("k").to_pylist())) == 1


def test_a_deduplicate_has_the_keys_that_are_done_and_the_rows_that_wait(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").deduplicate(keep="first"))
    job.epoch([row("a", 1, 5), row("b", 2, 10)])
    assert read_state(job.checkpoints, "deduplicate-1").to_pylist() == [{"k": "a", "_time": at(5)}]
    waiting = read_state(job.checkpoints, "deduplicate-1", name="waiting")
    assert [(one["k"], one["v"]) for one in waiting.to_pylist()] == [("b", 2)]


@pytest.mark.parametrize("history", [False, True])
def test_a_step_that_applies_changes_has_the_rows_of_its_table(tmp_path: Path, history: bool) -> None:
    job = RunningJob(
        tmp_path,
        lambda job: job.key_by("k").apply_changes(sequence_by="at", delete_when="gone", columns="v", history=history),
        ddl="k string, v bigint, at timestamp, gone boolean",
    )
    records = [("a", 1, 5, False), ("a", 2, 7, False), ("b", 3, 6, False), ("b", 3, 9, True)]
    job.epoch([{"k": k, "v": v, "at": minute, "gone": gone} for k, v, minute, gone in records])
    found = [tuple(one.values()) for one in rows_of(read_state(job.checkpoints, "apply-changes-1"))]
    versions = [("a", at(5), 1, at(7)), ("a", at(7), 2, None), ("b", at(6), 3, at(9))]
    assert found == (versions if history else [("a", 2)])
    asked = read_state(job.checkpoints, "apply-changes-1", keys=["b", "zz"])
    assert asked.num_rows == (1 if history else 0)
    page = read_state(job.checkpoints, "apply-changes-1", limit=1)  # a key with all of its versions, or a deleted one
    assert len(set(page.column("k").to_pylist())) <= 1


def test_an_over_step_has_the_number_of_rows_of_each_key_and_the_rows_that_wait(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").over(before="lag(v, 2)", total="sum(v)"))
    job.epoch([row("a", 1, 5), row("a", 2, 6), row("b", 3, 7), row("b", 4, 10), row("b", 4, 10)])
    found = rows_of(read_state(job.checkpoints, "over-1"))
    assert found == [{"k": "a", "_rows": 2}, {"k": "b", "_rows": 1}]
    assert read_state(job.checkpoints, "over-1", keys=["b", "zz"]).to_pylist() == [{"k": "b", "_rows": 1}]
    waiting = {"k": "b", "v": 4, "at": at(10)}
    assert read_state(job.checkpoints, "over-1", name="waiting").to_pylist() == [waiting, waiting]
    assert read_state(job.checkpoints, "over-1", name="waiting", keys=["a"]).num_rows == 0


def test_an_over_step_without_a_key_has_one_entry(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.over(n="row_number()"))
    job.epoch([row("a", 1, 5), row("b", 2, 10)])
    assert read_state(job.checkpoints, "over-1").to_pylist() == [{"_all": True, "_rows": 1}]


def test_a_later_aggregate_whose_registers_cannot_retract_is_read(tmp_path: Path) -> None:
    job = RunningJob(
        tmp_path,
        lambda job: job.key_by("k").aggregate(s="sum(v)").key_by("s").aggregate(n="count(*)", least="min(k)"),
    )
    job.epoch([row("a", 3, 0), row("b", 3, 0), row("c", 4, 0)])
    job.epoch([row("a", 1, 1)])
    found = read_state(job.checkpoints, "aggregate-2")
    assert rows_of(found) == [{"s": 3, "n": 1, "least": "b"}, {"s": 4, "n": 2, "least": "a"}]
    assert read_state(job.checkpoints, "aggregate-2", keys=[4], limit=5).to_pylist() == [{"s": 4, "n": 2, "least": "a"}]


def process(job: Any) -> Any:
    return job.key_by("k").process(Everything, output="k string, total long")


def test_each_state_of_a_process_function_is_read_by_its_name(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, process)
    job.epoch([row("a", 1, 0), row("b", 2, 3)])
    job.epoch([row("a", 4, 4)])
    step = "process-1"

    def read(name: str | None = None, **more: Any) -> list[dict[str, Any]]:
        return rows_of(read_state(job.checkpoints, step, name=name, **more))

    profile = {"first": 1, "nick": None}
    assert read(keys=["a"]) == [{"k": "a", "brief": 7, "profile": profile, "seen": [1, 4], "total": 5}]
    assert read("total") == [{"k": "a", "value": 5}, {"k": "b", "value": 2}]
    assert read("seen", keys=["b"]) == [{"k": "b", "value": [2]}]
    assert read("brief") == [{"k": "a", "value": 7}]
    assert read("by_value", keys=["a"]) == [
        {"k": "a", "map_key": 1, "value": "1"},
        {"k": "a", "map_key": 4, "value": "4"},
    ]
    assert read("other") == [{"k": "a", "map_key": "x", "value": [2.0]}, {"k": "b", "map_key": "x", "value": [1.0]}]
    assert read("event-time-timers") == [{"k": "a", "timer": at(5)}]
    assert read("event-time-timers", keys=["b"]) == []
    assert read("processing-time-timers") == []
    with open_state(job.checkpoints) as state:
        assert state.names(step)[0] == "values"
        assert set(state.names(step)) > {"total", "profile", "seen", "by_value", "other", "brief"}


def test_the_checkpoint_of_an_open_snapshot_is_not_dropped(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, counts)
    job.epoch(EPOCHS[0])
    with open_state(job.checkpoints) as state:
        job.epoch(EPOCHS[1])
        retained = list(job.manifests)
        drop_old_checkpoints(job.log, retained, num_retained=1, now_ms=time.time_ns() // 1_000_000)
        assert job.log.epochs() == (0, 1)
        assert state.renew()
        assert rows_of(state.read("aggregate-1").table) == totals(EPOCHS[:1])
    drop_old_checkpoints(job.log, retained, num_retained=1, now_ms=time.time_ns() // 1_000_000)
    assert job.log.epochs() == (1,)
    assert job.log.store.list("leases") == []


def test_a_lease_is_not_renewed_once_another_job_has_an_epoch_of_this_number(tmp_path: Path) -> None:
    first, second = (RunningJob(tmp_path / str(number), counts, clock_ms=number) for number in (1, 2))
    first.epoch(EPOCHS[0])
    with open_state(first.checkpoints) as state:
        assert state.renew()
        shutil.rmtree(first.checkpoints)
        second.epoch(EPOCHS[1])
        shutil.copytree(second.checkpoints, first.checkpoints)
        assert not state.renew()


def test_a_page_keeps_its_checkpoint_for_the_next_page(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, counts)
    job.epoch(EPOCHS[2])
    page = read_state(job.checkpoints, "aggregate-1", limit=5)
    job.epoch(EPOCHS[1])
    drop_old_checkpoints(job.log, list(job.manifests), num_retained=1, now_ms=time.time_ns() // 1_000_000)
    rest = read_state(job.checkpoints, "aggregate-1", after=page.schema.metadata[b"mixedmode.next"].decode())
    assert page.num_rows + rest.num_rows == len(totals(EPOCHS[2:]))


def test_a_closed_snapshot_reads_nothing_and_takes_no_lease(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job", counts)
    job.epoch([row("a", 1, 0)])
    with open_state(job.checkpoints) as snapshot:
        assert snapshot.read("aggregate-1").table.num_rows == 1
        with pytest.raises(InvalidJobError, match=r"a lease lasts at most an hour.*lease_seconds=3601"):
            snapshot.renew(3601)
    snapshot.close()
    for keys in (None, ["a"]):
        with pytest.raises(InvalidJobError, match=r"this snapshot of the state is closed, .* Call open_state again\."):
            snapshot.read("aggregate-1", keys=keys)
    assert not snapshot.renew()
    assert Leases(ObjectStore(job.checkpoints)).all() == ()


@pytest.mark.parametrize(("keys", "rows"), [(None, 30_000), (["k1", "k2"], 2)])
def test_a_snapshot_is_closed_beside_threads_that_read_it_and_their_answers_are_whole(
    keys: list[str] | None, rows: int, tmp_path: Path
) -> None:
    job = RunningJob(tmp_path / "job", counts)
    job.epoch([row(f"k{number}", 1, number) for number in range(30_000)])

    def read_on(snapshot: StateSnapshot, has_read: threading.Event) -> None:
        while True:
            assert snapshot.read("aggregate-1", keys=keys).table.num_rows == rows
            has_read.set()

    for _ in range(5):
        has_read = threading.Event()
        with ThreadPoolExecutor() as pool, open_state(job.checkpoints) as snapshot:
            ends = [pool.submit(read_on, snapshot, has_read) for _ in range(2)]
            assert has_read.wait(10)
            snapshot.close()
            for end in ends:
                with pytest.raises(InvalidJobError, match="this snapshot of the state is closed"):
                    end.result(10)
