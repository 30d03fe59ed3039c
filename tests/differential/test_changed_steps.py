"""One setting of a step changes between two starts: the start is refused, or all rows are those of a job without one.

Without the refusal, a step would read state that has another meaning, or retract rows that were never inserted.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from tests.differential.stories import case_folder
from tests.harness import ManualClock, output_rows, run
from tests.local_engine import LocalEngine, World, local_session

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
#: the values of the files: (key, v, w, hour)
FILES = (
    [("a", 1, 2, 0), ("b", 5, 0, 0), ("a", 4, 1, 1), ("c", 6, 3, 1)],
    [("a", 2, 2, 2), ("c", 3, 0, 3), ("b", 4, 1, 3), ("b", 0, 3, 4)],
    [("a", 6, 1, 4), ("b", 2, 2, 5), ("c", 1, 1, 5), ("d", 3, 2, 6)],
)
Steps = Callable[[Stream], Stream]


def aggregated(call: str) -> Steps:
    return lambda stream: stream.key_by("k").aggregate(a=call)


def counted(call: str) -> Steps:
    return lambda stream: aggregated(call)(stream).key_by("a").aggregate(keys="count(*)")


def windowed(**window: str | int) -> Steps:
    return lambda stream: stream.key_by("k").window(**window).aggregate(n="count(*)")  # type: ignore[arg-type]


def limited(having: str | None) -> Steps:
    return lambda stream: stream.key_by("k").aggregate(a="sum(v)", having=having).key_by("a").aggregate(n="count(*)")


def ranked(n: int, *order_by: str) -> Steps:
    return lambda stream: stream.key_by("k").top(n, order_by=order_by)


def paired(*within: str) -> Steps:
    first, last = within
    return lambda stream: stream.interval_join(
        stream, on="k", within=(first, last), select=["left.k", "left.v", "right.v AS x"], name="pairs"
    )


PERCENTILES = "median(v)", "percentile(v, 0.9)"
MODES = "mode(v)", "mode() within group (order by v desc)"
DEVIATIONS = "stddev(v)", "stddev_pop(v)", "variance(v)"
PAIRS = "corr(v, w)", "covar_pop(v, w)", "regr_slope(v, w)"
GROUPS: dict[str, list[Steps]] = {
    "percentiles": [aggregated(call) for call in PERCENTILES],
    "percentiles, counted": [counted(call) for call in PERCENTILES],
    "modes": [aggregated(call) for call in MODES],
    "modes, counted": [counted(call) for call in MODES],
    "distinct values, counted": [counted(f"{function}(distinct v)") for function in ("count", "sum", "avg")],
    "deviations": [aggregated(call) for call in DEVIATIONS],
    "deviations, counted": [counted(call) for call in DEVIATIONS],
    "pairs, counted": [counted(call) for call in PAIRS],
    "conditions, counted": [limited(having) for having in (None, "a > 6", "a > 7")],
    "windows": [
        windowed(tumbling="2h"),
        windowed(tumbling="2h", offset="30m"),
        windowed(tumbling="2h", allowed_lateness="1h"),
        windowed(sliding="2h", slide="1h"),
        windowed(cumulating="2h", step="1h"),
        windowed(session="2h"),
        windowed(count=2),
        windowed(tumbling="24h"),
        windowed(tumbling="1d", time_zone="Asia/Tokyo"),
    ],
    "ranks": [ranked(1, "v"), ranked(2, "v"), ranked(2, "v desc"), ranked(2, "w", "v")],
    "duplicates": [
        lambda stream: stream.key_by("k").deduplicate(keep="first", tie_break="v"),
        lambda stream: stream.key_by("k").deduplicate(keep="last", tie_break="v"),
        lambda stream: stream.key_by("k").deduplicate(keep="any"),
        lambda stream: stream.key_by("k").deduplicate(keep="any", within="2h"),
    ],
    "values of rows before": [
        lambda stream: stream.key_by("k").over(n="lag(v)"),
        lambda stream: stream.key_by("k").over(n="sum(v)"),
        lambda stream: stream.key_by("k").over(n="sum(v) rows 1 preceding"),
        lambda stream: stream.key_by("k").over(n="sum(v)", tie_break="w"),
    ],
    "intervals": [paired("0s", "1h"), paired("-1h", "0s"), paired("-1h", "1h")],
}
CHANGES = [
    pytest.param(name, before, after, id=f"{name}: {before} to {after}")
    for name, group in GROUPS.items()
    for before, after in permutations(range(len(group)), 2)
]


@pytest.mark.parametrize(("group", "before", "after"), CHANGES)
def test_a_changed_step_is_refused_or_has_the_answer_of_one_that_was_not_changed(
    group: str, before: int, after: int
) -> None:
    steps = GROUPS[group]
    try:
        found = rows_of(steps[before], steps[after])
    except InvalidJobError as error:
        assert " was changed (" in str(error)  # noqa: PT017 - one of two right outcomes
        return
    assert found == rows_of(steps[before], steps[before]) == rows_of(steps[after], steps[after])


@pytest.mark.parametrize("group", GROUPS)
def test_a_step_that_is_not_changed_goes_on(group: str) -> None:
    for steps in GROUPS[group]:
        assert rows_of(steps, steps)


def rows_of(before: Steps, after: Steps) -> list[str]:
    """The rows of a job that has some steps in its first start, and others in the next ones."""
    with case_folder() as folder:
        (folder / "in").mkdir()
        world = World()
        for number, steps in enumerate((before, after, after)):
            rows = [
                {"k": k, "v": v, "w": w, "at": datetime(2024, 1, 1, hour, tzinfo=UTC)}
                for k, v, w, hour in FILES[number]
            ]
            world.files[f"{number}"] = pa.Table.from_pylist(rows, SCHEMA)
            until = Until.DRAINED if number + 1 == len(FILES) else Until.IDLE
            run(job(folder, steps), local_session(world), until=until, engine=LocalEngine, clock=ManualClock(10**13))
        return sorted(map(str, output_rows(folder / "out")))


def job(folder: Path, steps: Steps) -> Job:
    source = Source.parquet(folder / "in", schema="k string, v bigint, w bigint, at timestamp", event_time="at")
    made = Job("changed", sources={"t": source}, checkpoint_dir=folder / "checkpoints", parallelism=2)
    return made.output("out", steps(made.source("t")), Sink.parquet(folder / "out"))
