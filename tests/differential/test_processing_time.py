"""Windows of processing time: each record is in the windows of the clock of its epoch, whatever the mode.

The oracle is plain Python: a list of the records of each epoch, with the clock that the epoch has. A clock that is set
back counts as standing still.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Job, Sink, Source
from mixedmode.testing import AggregateHarness, run_graph
from mixedmode.testing.local_plan import local_plan
from tests.differential.stories import case_folder, local_cases

START_MS, SIZE_MS, SLIDE_MS = 1_700_000_000_000, 10_000, 4_000
SCHEMA = pa.schema([("k", pa.string())])
Window = tuple[str, int, int]  # key, start and end in milliseconds


@dataclass(frozen=True)
class Epoch:
    """The records of an epoch, and by how much the clock is later than in the epoch before; less than 0: set back."""

    keys: tuple[str, ...]
    later_ms: int


EPOCHS = st.lists(
    st.builds(
        Epoch,
        st.lists(st.sampled_from("abc"), max_size=6).map(tuple),
        st.sampled_from([0, 1, 999, 3_000, 7_000, 10_000, 25_000, -1, -12_000]),
    ),
    min_size=1,
    max_size=8,
)


def windows_at(kind: str, clock_ms: int) -> list[tuple[int, int]]:
    if kind == "tumbling":
        return [(clock_ms // SIZE_MS * SIZE_MS, clock_ms // SIZE_MS * SIZE_MS + SIZE_MS)]
    first = clock_ms // SLIDE_MS * SLIDE_MS
    return [(start, start + SIZE_MS) for start in range(first, clock_ms - SIZE_MS, -SLIDE_MS)]


def expected(kind: str, epochs: list[Epoch]) -> tuple[Counter[Window], list[Counter[Window]]]:
    """All windows with their counts, and, for each epoch, those that it emits."""
    open_: Counter[Window] = Counter()
    every, emitted = Counter[Window](), []
    clock_ms, given_ms = 0, START_MS
    for epoch in epochs:
        given_ms += epoch.later_ms
        clock_ms = max(clock_ms, given_ms)
        for key in epoch.keys:
            for start, end in windows_at(kind, clock_ms):
                open_[key, start, end] += 1
                every[key, start, end] += 1
        due = Counter({window: count for window, count in open_.items() if window[2] <= clock_ms})
        open_ -= due
        emitted.append(due)
    return every, emitted


def job(kind: str, folder: Path, parallelism: int = 1) -> Job:
    window: Any = {"tumbling": "10s"} if kind == "tumbling" else {"sliding": "10s", "slide": "4s"}
    made = Job(
        "clocked",
        sources={"t": Source.parquet(folder / "in", schema="k string")},
        mode="mixed",
        checkpoint_dir=folder / "checkpoints",
        parallelism=parallelism,
    )
    counted = made.key_by("k").window(**window, time="processing").aggregate(n="count(*)")
    return counted.write(Sink.parquet(folder / "out"))


def counts(rows: list[dict[str, Any]]) -> Counter[Window]:
    """The windows in rows. No window is twice in them."""
    found = Counter[Window]()
    for row in rows:
        start, end = (int(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))
        assert (row["k"], start, end) not in found, row
        found[row["k"], start, end] = row["n"]
    return found


@given(st.sampled_from(["tumbling", "sliding"]), st.booleans(), st.sampled_from([1, 2, 4]), EPOCHS)
@example("tumbling", True, 2, [Epoch(("a", "b"), 0), Epoch(("a",), 25_000), Epoch((), 10_000)])
@example("tumbling", False, 1, [Epoch(("a",), 0), Epoch(("a",), 10_000), Epoch(("a",), -12_000), Epoch(("a",), 9_000)])
@local_cases(0.02)
def test_a_record_is_in_the_windows_of_the_clock_of_its_epoch(
    kind: str, has_backlog: bool, parallelism: int, epochs: list[Epoch]
) -> None:
    every, emitted = expected(kind, epochs)
    with case_folder() as folder:
        made = job(kind, folder, parallelism)
        run = LocalRun(made.spec, local_plan(made.spec, made.where), folder, START_MS)
        try:
            for number, epoch in enumerate(epochs):
                run.clock_ms += epoch.later_ms
                tables = {"t": [pa.table({"k": list(epoch.keys)}, schema=SCHEMA)]}
                before = len(run.outputs[""])
                run.run_backlog(tables) if has_backlog and number == 0 else run.run_live(tables)
                new = [row for table in run.outputs[""][before:] for row in table.to_pylist()]
                assert counts(new) == emitted[number], number
            run.end()
        finally:
            run.close()
        assert counts([row for table in run.outputs[""] for row in table.to_pylist()]) == every


@pytest.mark.parametrize("mode", ["batch", "live"])
def test_a_batch_has_one_instant(mode: Literal["batch", "live"], tmp_path: Path) -> None:
    rows = {"t": [{"k": key} for key in "abca"]}
    inputs: Any = {"inputs": rows} if mode == "batch" else {"live": [rows]}
    found = run_graph(job("tumbling", tmp_path), **inputs, clock=1000 * START_MS)
    assert counts(found.table()) == expected("tumbling", [Epoch(tuple("abca"), 0)])[0]


def test_the_clock_of_a_harness_makes_its_windows() -> None:
    windows = AggregateHarness(
        aggregate={"n": "count(*)"},
        schema="k string",
        key_by="k",
        window={"tumbling": "10s", "time": "processing"},
        clock=1000 * START_MS,
    )
    windows.feed([{"k": "a"}])
    windows.advance_clock("4s")
    windows.feed([{"k": "a"}])
    assert windows.take() == []
    windows.advance_clock("6s")
    assert [row["n"] for row in windows.take()] == [2]


def test_a_window_of_event_time_cannot_read_windows_of_processing_time(tmp_path: Path) -> None:
    made = job("tumbling", tmp_path)
    with pytest.raises(InvalidJobError, match=r"the rows of the window of processing time in .* have none"):
        made.window(tumbling="1h").aggregate(n="count(*)").spec  # noqa: B018 - it is checked when it is asked for


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"session": "1m"}, r"windows of processing time are tumbling, sliding or cumulating"),
        ({"tumbling": "1m", "allowed_lateness": "1m"}, "is not for windows of processing time"),
        ({"tumbling": "1m", "early_results_every": "1s"}, "is not for windows of processing time"),
    ],
)
def test_settings_that_say_nothing_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        Job("clocked", sources={"t": Source.parquet("in")}, mode="batch").window(**arguments, time="processing")
