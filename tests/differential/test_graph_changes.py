"""Outputs and branches of a job are removed and added from a savepoint: on the local executor, against plain Python.

The input is the same in all cases: some files before the savepoint, and some after it.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from mixedmode.cli.savepoint_reports import restore_report
from mixedmode.driver.phases import Until
from mixedmode.driver.restoring import RestoredJob, restore_savepoint
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import ManualClock, output_rows, run
from tests.local_engine import LocalEngine, World, local_session

HOUR_US = 3_600_000_000
Record = tuple[str, int, int]  # key, value, hour
BEFORE: list[Record] = [("a", 1, 0), ("b", 2, 0), ("a", 3, 1), ("c", 1, 2), ("b", 5, 3)]
AFTER: list[Record] = [("c", 4, 4), ("a", 2, 5), ("d", 7, 6), ("d", 1, 9)]
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
Rows = Counter[tuple[Any, ...]]


class Place:
    """The folders of a job, and its input."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.world = World()
        (base / "in").mkdir()

    def job(self, *outputs: str, folder: str = "checkpoints") -> Job:
        """Totals by key, in two kinds of steps behind them; and windows, with windows of windows behind them."""
        source = Source.parquet(self.base / "in", schema="k string, v bigint, at timestamp", event_time="at")
        made = Job(
            "changed", sources={"s": source}, checkpoint_dir=self.base / folder, parallelism=2, max_parallelism=4
        )
        totals = made.source("s").key_by("k", name="totals").aggregate(n="count(*)", total="sum(v)")
        hours = made.source("s").key_by("k", name="hours").window(tumbling="1h").aggregate(n="count(*)")
        streams = {
            "totals": totals,
            "counts": totals.key_by("n", name="counts").aggregate(keys="count(*)"),
            "sums": totals.key_by("total", name="sums").aggregate(keys="count(*)"),
            "hours": hours,
            "again": hours,
            "joined": made.source("s").as_of_join(
                made.source("s"), on="k", tie_break="v", select=["left.k", "left.v"], name="joined"
            ),
            "days": hours.key_by("k", name="days").window(tumbling="24h").aggregate(hours="count(*)"),
        }
        for name in outputs:
            made = made.output(name, streams[name], Sink.parquet(self.base / "out" / name))
        return made

    def add(self, name: str, records: Iterable[Record]) -> None:
        rows = [
            {"k": k, "v": v, "at": datetime.fromtimestamp(hour * HOUR_US / 1_000_000, UTC)} for k, v, hour in records
        ]
        self.world.files[name] = pa.Table.from_pylist(rows, SCHEMA)

    def run(self, job: Job, until: Until = Until.DRAINED) -> None:
        run(job, local_session(self.world), until=until, engine=LocalEngine, clock=ManualClock(10**13))

    def restore(self, job: Job, *, allow_dropped: bool = False) -> RestoredJob:
        place, session = str(self.base / "savepoint"), local_session(self.world)
        return restore_savepoint(
            place, job.spec, job.where, allow_dropped=allow_dropped, session=session, engine=LocalEngine
        )

    def rows(self, name: str, *columns: str) -> Rows:
        return Counter(tuple(row[one] for one in columns) for row in output_rows(self.base / "out" / name))


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    """A job that has read the first files, and its savepoint."""

    def of(*outputs: str) -> Place:
        made = Place(tmp_path)
        made.add("0", BEFORE)
        made.run(made.job(*outputs), Until.IDLE)
        made.job(*outputs).create_savepoint(tmp_path / "savepoint")
        made.add("1", AFTER)
        return made

    return of


def totals(records: Iterable[Record]) -> dict[str, list[int]]:
    found = defaultdict[str, list[int]](list)
    for key, value, _ in records:
        found[key].append(value)
    return found


def hours(records: Iterable[Record]) -> Rows:
    counted = Counter((key, hour) for key, _, hour in records)
    return Counter((key, n) for (key, _), n in counted.items())


ALL = [*BEFORE, *AFTER]
COUNTS = Counter(Counter(len(values) for values in totals(ALL).values()).items())
SUMS = Counter(Counter(sum(values) for values in totals(ALL).values()).items())


def test_a_branch_is_removed_and_the_other_one_goes_on(place: Callable[..., Place]) -> None:
    one = place("counts", "hours")
    smaller = one.job("counts", folder="other")
    with pytest.raises(InvalidJobError, match=r"state of steps that the job does not have: 'hours'.*--allow-dropped"):
        one.restore(smaller)
    restored = one.restore(smaller, allow_dropped=True)
    assert (restored.outputs, restored.dropped_outputs, restored.steps.dropped) == (("counts",), ("hours",), ("hours",))
    one.run(smaller)
    assert one.rows("counts", "n", "keys") == COUNTS
    assert one.rows("hours", "k", "n").total() < hours(ALL).total(), "as it was"


def test_an_output_is_removed_and_its_steps_go_on(place: Callable[..., Place]) -> None:
    one = place("hours", "again", "days")
    smaller = one.job("again", "days", folder="other")
    restored = one.restore(smaller)
    assert (restored.outputs, restored.dropped_outputs, restored.steps.dropped) == (("again", "days"), ("hours",), ())
    one.run(smaller)
    assert one.rows("again", "k", "n") == hours(ALL)


def test_a_step_and_its_output_are_added_behind_a_table_that_nothing_else_reads(place: Callable[..., Place]) -> None:
    one = place("counts", "hours")
    other = one.job("sums", "hours", folder="other")
    restored = one.restore(other, allow_dropped=True)
    assert (restored.new_outputs, set(restored.with_full_snapshot)) == (("sums",), {"totals"})
    one.run(other)
    assert one.rows("sums", "total", "keys") == SUMS, "also of the keys that the later records do not have"
    assert one.rows("hours", "k", "n") == hours(ALL)


def test_a_second_output_of_rows_that_do_not_change_gets_those_that_come(place: Callable[..., Place]) -> None:
    one = place("hours")
    larger = one.job("hours", "again", folder="other")
    before = one.rows("hours", "k", "n")
    assert one.restore(larger).new_outputs == ("again",)
    one.run(larger)
    assert one.rows("hours", "k", "n") == hours(ALL)
    assert one.rows("again", "k", "n") == hours(ALL) - before


def test_a_new_output_of_a_join_gets_the_rows_that_come(place: Callable[..., Place]) -> None:
    one = place("joined")
    before = one.rows("joined", "k", "v")
    shutil.rmtree(one.base / "out")
    again = one.job("joined", folder="other")
    restored = one.restore(again)
    assert (restored.new_outputs, restored.with_full_snapshot) == (("joined",), frozenset())
    assert "only rows from after the savepoint" in restore_report(restored, again.spec)
    one.run(again)
    assert before + one.rows("joined", "k", "v") == Counter((k, v) for k, v, _ in ALL)
    assert before.total() > 0


def by_total(one: Place, out: str, folder: str, *, joined: Literal["inner", "left"] | None = None) -> Job:
    """Totals, or a join of this type, with another key than that of the step."""
    source = Source.parquet(one.base / "in", schema="k string, v bigint, at timestamp")
    made = Job("keyed", sources={"s": source}, checkpoint_dir=one.base / folder, parallelism=2, max_parallelism=4)
    if joined:
        rows = made.source("s").join(made.source("s"), on="k", type=joined, select=["left.k", "left.v"], name="rows")
        return made.output("o", rows, Sink.parquet(one.base / out), key=["k", "v"])
    sums = made.source("s").key_by("k", name="rows").aggregate(total="sum(v)", n="count(*)")
    return made.output("o", sums, Sink.parquet(one.base / out), key=["total"])


@pytest.fixture
def keyed(tmp_path: Path) -> Callable[..., Place]:
    def of(*, joined: Literal["inner", "left"] | None) -> Place:
        one = Place(tmp_path)
        one.add("0", [("a", 1, 0), ("b", 20, 0), ("c", 300, 0)])
        one.run(by_total(one, "old", "checkpoints", joined=joined), Until.IDLE)
        by_total(one, "old", "checkpoints", joined=joined).create_savepoint(tmp_path / "savepoint")
        one.add("1", [("a", 4000, 1)])
        return one

    return of


@pytest.mark.parametrize("out", ["old", "new"])
def test_an_output_with_a_key_of_its_own_has_the_whole_table(keyed: Callable[..., Place], out: str) -> None:
    one = keyed(joined=None)
    job = by_total(one, out, "other")
    restored = one.restore(job)
    assert restored.with_full_snapshot == ({"rows"} if out == "new" else frozenset())
    one.run(job)
    assert Counter((row["k"], row["total"]) for row in output_rows(one.base / out)) == Counter(
        [("a", 4001), ("b", 20), ("c", 300)]
    )


def test_a_new_output_of_rows_that_change_and_are_not_kept_is_refused(keyed: Callable[..., Place]) -> None:
    one = keyed(joined="left")
    with pytest.raises(InvalidJobError, match="output 'o' was added behind step 'rows', which cannot emit again"):
        one.restore(by_total(one, "new", "other", joined="left"))
    one.restore(by_total(one, "old", "other", joined="left"))


def test_a_new_output_of_rows_that_are_only_added_begins_with_those_that_come(keyed: Callable[..., Place]) -> None:
    one = keyed(joined="inner")
    assert one.restore(by_total(one, "new", "other", joined="inner")).new_outputs == ("o",)


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (("counts",), ("counts", "totals"), r"output 'totals' was added behind step 'totals', whose rows others read"),
        (("counts",), ("counts", "sums"), r"step 'sums' was added behind step 'totals', whose rows others read"),
        (("counts",), ("counts", "hours"), r"step 'hours' was added, and nothing .*\(put it into a job of its own"),
        (("hours",), ("hours", "days"), r"step 'days' was added behind step 'hours', which cannot emit again"),
    ],
)
def test_what_would_miss_rows_is_refused(
    place: Callable[..., Place], before: tuple[str, ...], now: tuple[str, ...], says: str
) -> None:
    one = place(*before)
    with pytest.raises(InvalidJobError, match=rf"{says}(.|\n)*Nothing was written"):
        one.restore(one.job(*now, folder="other"), allow_dropped=True)
