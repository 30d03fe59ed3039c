"""Tasks watch the records of the sources, without Spark."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.timing import Timing
from mixedmode.tasks.watching import NO_PARTITION, PARTITION_COLUMN, SOURCE_COLUMN, Watch, Watched
from mixedmode.time import Seen, Strategy, WatermarkState

#: (None: a row of the step, else the number of the source; its partition; its event time; the step's own column)
Mixed = tuple[int | None, str | None, int | None, int]
SOURCES = ("a", "b")
NOW_MS, AHEAD_MS = 10, 5

_ROWS = st.lists(
    st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, "", "x", "y"]), st.none() | st.integers(0, 30_000))
)


def watch(kind: Watched, *names: str) -> Watch:
    timing = Timing(
        before=WatermarkState.initial([], 0),
        strategies={"a": Strategy(0, None, AHEAD_MS)},
        clock_ms=NOW_MS,
        clock_before_ms=None,
        backlog=frozenset(),
        backlog_before=frozenset(),
        is_backlog=False,
        was_backlog=False,
        fires_all=False,
    )
    return Watch(kind, names, timing, partitioned=("a",))


def table(rows: Sequence[Mixed]) -> pa.Table:
    schema = pa.schema(
        [
            (SOURCE_COLUMN, pa.int32()),
            (PARTITION_COLUMN, pa.string()),
            (TIME_COLUMN, pa.int64()),
            ("own", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def expected(rows: Sequence[Mixed]) -> Progress:
    """In plain Python, record by record."""
    splits: dict[tuple[str, str], Seen] = {}
    ahead = 0
    for number, partition, time_us, _ in rows:
        if number is None:
            continue
        split = (SOURCES[number], partition or ("" if number else NO_PARTITION))
        before = splits.get(split, Seen(0, None))
        counts = number == 0 and time_us is not None  # only of `a` is there a strategy
        is_ahead = counts and time_us is not None and time_us > 1000 * (NOW_MS + AHEAD_MS)
        ahead += is_ahead
        times = [before.max_time_us, time_us if counts and not is_ahead else None]
        newest = max((time for time in times if time is not None), default=None)
        splits[split] = Seen(before.records + 1, newest)
    return Progress(ahead=ahead, splits=splits)


@given(_ROWS, st.lists(st.integers(0, 30)))
def test_records_of_sources_are_told_from_rows_of_the_step_however_they_are_cut(
    found: list[tuple[int | None, str | None, int | None]], cuts: list[int]
) -> None:
    """I1 and I2."""
    rows: list[Mixed] = [(*row, number) for number, row in enumerate(found)]
    whole, starts = table(rows), sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    seen, kept = Progress(), []
    for start, end in itertools.pairwise(starts):
        part, progress = watch(Watched.APART, *SOURCES).split(whole.slice(start, end - start))
        seen = seen.merged(progress)
        kept += part["own"].to_pylist()
    assert kept == [row[3] for row in rows if row[0] is None]
    assert seen == expected(rows)


def test_rows_that_are_the_records_tell_it_themselves() -> None:
    rows: list[Mixed] = [(0, "x", 5, 0), (0, "x", None, 1), (0, "y", 7, 2)]
    part, seen = watch(Watched.ROWS, "a").split(table(rows))
    assert (part.num_rows, seen) == (3, expected(rows)), "a record without a time moves nothing"


def test_rows_of_a_join_tell_their_source_by_their_side() -> None:
    rows = pa.table(
        {
            SIDE_COLUMN: pa.array([1, 0, 1, 0], pa.uint8()),
            TIME_COLUMN: pa.array([5, 2_000, None, 30_000], pa.int64()),
        }
    )
    part, seen = replace(watch(Watched.ROWS, *SOURCES), sides=("b", "a"), partitioned=()).split(rows)
    assert part.num_rows == 4
    assert seen == Progress(splits={("a", ""): Seen(2, 5), ("b", ""): Seen(2, None)}), "only of `a` is there a strategy"


def test_a_stage_behind_the_first_sees_nothing_of_them() -> None:
    part, seen = watch(Watched.BEFORE, "a").split(table([(0, "x", 5, 0)]))
    assert (part.num_rows, seen) == (1, Progress())
