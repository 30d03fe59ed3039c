"""Every answer equals a replay, in plain Python, of the records up to its epoch: of each kind of state, at each epoch,
through merges of runs and changes of the parallelism, from the folder, from a savepoint, and from an object store.

A minute is the unit of time. The records of epoch e begin at minute 10 e, and its watermark is 10 e + 9.5, at which no
record is and no bound: so nothing is late, and the replay needs no rule for equal times.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mixedmode import open_state
from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.queryable import StateSnapshot
from tests.queryable.functions import Everything
from tests.queryable.jobs import Row, RunningJob, rows_of
from tests.queryable.test_places import copied
from tests.queryable.test_reads import at, counts, totals
from tests.s3 import S3Server, environment

EPOCHS = 6
KEYS = ["a", "b", "c", "d", "e", "f"]
CLOCK = "clock"  # the key of the records that only move the watermark
Records = Mapping[str, Sequence[Row]]  #: {source: its records so far}
Parts = Mapping[str, list[dict[str, Any]]]  #: {part of a state: its rows}


@dataclass(frozen=True)
class Kind:
    """A step that keeps state, and what its state is after some records, at a watermark in minutes."""

    step: str
    build: Callable[[Any], Any]
    replay: Callable[[Records, float], Parts]
    sources: tuple[str, ...] = ("t",)


def by_key(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found = defaultdict[str, list[Row]](list)
    for row in sorted(rows, key=lambda row: row["at"]):
        found[row["k"]].append(row)
    return found


def aggregate(records: Records, _watermark: float) -> Parts:
    return {"result": totals([records["t"]])}


def windows(records: Records, watermark: float) -> Parts:
    sums = defaultdict[tuple[int, str], int](int)
    for row in records["t"]:
        sums[int(row["at"] // 10 * 10), row["k"]] += row["v"]
    return {
        "windows": [
            {"window_start": at(start), "window_end": at(start + 10), "k": k, "s": s, "_fired": start + 10 <= watermark}
            for (start, k), s in sums.items()
            if start + 10 + 15 > watermark
        ]
    }


def sessions(records: Records, watermark: float) -> Parts:
    found = []
    for k, rows in by_key(records["t"]).items():
        bounds: list[list[Any]] = []  # start, last record, number of records
        for row in rows:
            if bounds and row["at"] <= bounds[-1][1] + 5:
                bounds[-1][1:] = row["at"], bounds[-1][2] + 1
            else:
                bounds.append([row["at"], row["at"], 1])
        found += [
            {"window_start": at(start), "window_end": at(last + 5), "k": k, "n": n, "_fired": False}
            for start, last, n in bounds
            if last + 5 > watermark
        ]
    return {"sessions": found}


def process(records: Records, watermark: float) -> Parts:
    found = defaultdict[str, list[dict[str, Any]]](list)
    for k, rows in by_key(records["t"]).items():
        values = [row["v"] for row in rows]
        own = {"total": sum(values), "seen": values, "profile": {"first": values[0], "nick": None}}
        for name, value in own.items():
            found[name].append({"k": k, "value": value})
        found["values"].append({"k": k, **own, "brief": 7 if 1 in values else None})
        found["by_value"] += [{"k": k, "map_key": v, "value": str(v)} for v in set(values)]
        due = {row["at"] + 1 for row in rows if row["at"] + 1 > watermark}
        found["event-time-timers"] += [{"k": k, "timer": at(minute)} for minute in due]
    return found


def sides(rows: Sequence[Row], *, with_time: bool = True) -> list[dict[str, Any]]:
    return [{"k": row["k"], "v": row["v"], **({"_time": at(row["at"])} if with_time else {})} for row in rows]


def regular(records: Records, _watermark: float) -> Parts:
    return {side: sides(records[source], with_time=False) for side, source in (("left", "t"), ("right", "u"))}


def interval(records: Records, watermark: float) -> Parts:
    return {
        "left": sides([row for row in records["t"] if row["at"] + 12 > watermark]),
        "right": sides([row for row in records["u"] if row["at"] + 3 > watermark]),
    }


def as_of(records: Records, watermark: float) -> Parts:
    past = by_key([row for row in records["u"] if row["at"] <= watermark])
    waiting = {
        f"waiting-{side}": sides([row for row in records[source] if row["at"] > watermark])
        for side, source in (("left", "t"), ("right", "u"))
    }
    return {"current": sides([rows[-1] for rows in past.values()]), **waiting}


def joined(name: str, **given: Any) -> Callable[[Any], Any]:
    def build(job: Any) -> Any:
        stream = getattr(job.source("t"), name)(
            job.source("u"), on="k", select=["left.k", "left.v", "right.v AS n"], **given
        )
        return stream.key_by("k").aggregate(n="count(*)") if name == "join" else stream

    return build


KINDS = {
    "aggregate": Kind("aggregate-1", counts, aggregate),
    "windows": Kind(
        "aggregate-1",
        lambda job: job.key_by("k").window(tumbling="10m", allowed_lateness="15m").aggregate(s="sum(v)"),
        windows,
    ),
    "sessions": Kind("aggregate-1", lambda job: job.key_by("k").window(session="5m").aggregate(n="count(*)"), sessions),
    "process": Kind(
        "process-1", lambda job: job.key_by("k").process(Everything, output="k string, total long"), process
    ),
    "join": Kind("join_1", joined("join"), regular, ("t", "u")),
    "interval": Kind("join_1", joined("interval_join", within=("-3m", "12m")), interval, ("t", "u")),
    "as-of": Kind("join_1", joined("as_of_join"), as_of, ("t", "u")),
}


def epochs(kind: Kind, rng: random.Random) -> Iterator[Records]:
    """Yield the records of each epoch by source, no two of a source at the same time."""
    for first in range(0, 10 * EPOCHS, 10):
        behind = rng.choice(kind.sources)  # the source whose watermark is that of the step
        records: dict[str, list[Row]] = {}
        for source in kind.sources:
            minutes = rng.sample(range(first, first + (10 if source == behind else 15)), rng.randint(1, 8))
            rows: list[Row] = [{"k": rng.choice(KEYS), "v": rng.randint(1, 4), "at": minute} for minute in minutes]
            last = first + (9.5 if source == behind else 14.5)
            records[source] = [*rows, {"k": CLOCK, "v": 0, "at": last}]
        yield records


def played(kind: Kind, folder: Path, seed: int) -> tuple[RunningJob, list[Parts]]:
    """Return a job that has run all epochs, each with another parallelism, and the replay up to each epoch."""
    rng = random.Random(seed)
    job = RunningJob(folder, kind.build, fan_in=2, sources=kind.sources)
    so_far: dict[str, list[Row]] = {source: [] for source in kind.sources}
    replays: list[Parts] = []
    for number, records in enumerate(epochs(kind, rng)):
        job.epoch(records, parallelism=rng.choice([1, 2, 3, 8]))
        for source, rows in records.items():
            so_far[source] += rows
        replays.append({name: without_clock(rows) for name, rows in kind.replay(so_far, 10 * number + 9.5).items()})
    assert len({manifest.parallelism for manifest in job.manifests}) > 1
    return job, replays


def without_clock(rows: Sequence[Any]) -> list[Any]:
    return [row for row in rows if row["k"] != CLOCK]


def check(state: StateSnapshot, step: str, replay: Parts) -> None:
    """Compare all rows, the pages of a scan, and the rows of each key with the replay."""
    for name, expected in replay.items():
        rows = rows_of(state.read(step, name=name).table)
        columns = expected[0].keys() if expected else set()
        shown = [{column: row[column] for column in columns} for row in without_clock(rows)]
        assert sorted(shown, key=repr) == sorted(expected, key=repr), (state.epoch, name)
        for key in KEYS:
            own = [row for row in rows if row["k"] == key]
            assert rows_of(state.read(step, name=name, keys=[key]).table) == own, (state.epoch, name, key)
        pages, after = list[Row](), None
        while after is not None or not pages:
            page = state.read(step, name=name, limit=3, after=after)
            pages += page.table.to_pylist()
            after = page.next
        assert sorted(pages, key=repr) == rows, (state.epoch, name)


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_is_that_of_a_replay_up_to_its_epoch(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    job, replays = played(kind, tmp_path / "job", seed=len(name))
    assert any(rows for replay in replays for rows in replay.values())
    for epoch, replay in enumerate(replays):
        with open_state(job.checkpoints, epoch=epoch) as state:
            check(state, kind.step, replay)
    create_savepoint(job.log, ObjectStore(tmp_path / "savepoint"), now_ms=0)
    with open_state(tmp_path / "savepoint") as state:
        check(state, kind.step, replays[-1])


def test_an_answer_from_s3_is_that_of_a_replay_up_to_its_epoch(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    for name, kind in KINDS.items():
        job, replays = played(kind, tmp_path / name, seed=1)
        store = ObjectStore(f"{bucket}/{name}")
        copied(job.log.store, store)
        with open_state(store.url, epoch=3) as state:
            check(state, kind.step, replays[3])
        assert store.list("leases") == []
