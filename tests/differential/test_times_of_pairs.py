"""Pairs of a join by time that keep the event time of one side: windows after it lose no pair, and hold none back."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Job, Sink, Source
from mixedmode.testing.local_plan import local_plan
from tests.differential.stories import case_folder

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))])
SIZE_MS, DISORDER_MS = 10, 15
Record = tuple[str, int]  # key, time in milliseconds
Parts = list[tuple[list[Record], list[Record]]]
Side = Literal["left", "right"]


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    """The records of two sources, part by part. None comes later than DISORDER_MS after a later one."""
    found: Parts = []
    for number in range(draw(st.integers(2, 5))):
        times = st.integers(DISORDER_MS * number, DISORDER_MS * (number + 1))
        records = st.lists(st.tuples(st.sampled_from("ab"), times), max_size=5)
        found.append((draw(records), draw(records)))
    return found


def job(folder: str, within: tuple[int, int], side: Side, kind: Literal["inner", "left", "right"]) -> Job:
    sources = {
        name: Source.parquet(
            f"{folder}/{name}", schema="k string, at timestamp", event_time="at", out_of_orderness=f"{DISORDER_MS}ms"
        )
        for name in ("a", "b")
    }
    made = Job("pairs", sources=sources, mode="mixed", checkpoint_dir=f"{folder}/c", parallelism=2, max_parallelism=8)
    pairs = made.source("a").interval_join(
        made.source("b"),
        on="k",
        within=(f"{within[0]}ms", f"{within[1]}ms"),
        type=kind,
        select=[f"{side}.k", "left.at AS of_left", "right.at AS of_right"],
        event_time=f"of_{side}",
    )
    windows = pairs.key_by("k").window(tumbling=f"{SIZE_MS}ms").aggregate(n="count(*)")
    return made.output("windows", windows, Sink.parquet(f"{folder}/out"))


def table_of(records: Sequence[Record]) -> pa.Table:
    times = pa.array([1000 * time for _, time in records], pa.int64()).cast(SCHEMA.field("at").type)
    return pa.table([pa.array([key for key, _ in records], pa.string()), times], schema=SCHEMA)


def expected(given: Parts, within: tuple[int, int], side: Side, kind: str) -> Counter[tuple[str, int]]:
    """The pairs of each key and window, in plain Python."""
    left, right = ([record for part in given for record in part[number]] for number in (0, 1))
    pairs = [(x, y) for x in left for y in right if x[0] == y[0] and within[0] <= y[1] - x[1] <= within[1]]
    times = [(x[0], (x if side == "left" else y)[1]) for x, y in pairs]
    alone = {"left": set(left) - {x for x, _ in pairs}, "right": set(right) - {y for _, y in pairs}}
    times += [record for record in (left if side == "left" else right) if kind == side and record in alone[side]]
    return Counter((key, time // SIZE_MS * SIZE_MS) for key, time in times)


@pytest.mark.parametrize(
    ("side", "kind"), [("left", "inner"), ("right", "inner"), ("left", "left"), ("right", "right")]
)
@settings(max_examples=4)
@given(given=parts(), least=st.integers(-30, 30), length=st.integers(0, 30))
def test_windows_go_by_the_time_of_a_side(given: Parts, least: int, length: int, side: Side, kind: str) -> None:
    within = (least, least + length)
    found = {}
    for mode in ("batch", "streaming", "mixed"):
        with case_folder() as folder:
            made = job(str(folder), within, side, kind)  # type: ignore[arg-type]
            run = LocalRun(made.spec, local_plan(made.spec, made.where), folder, 0)
            tables = [{"a": [table_of(a)], "b": [table_of(b)]} for a, b in given]
            if mode == "batch":
                whole = [[record for part in given for record in part[number]] for number in (0, 1)]
                run.run_batch({"a": [table_of(whole[0])], "b": [table_of(whole[1])]})
            else:
                if mode == "mixed":
                    run.run_backlog(tables.pop(0))
                for one in tables:
                    run.run_live(one)
                run.end()
            rows = [row for table in run.outputs["windows"] for row in table.to_pylist()]
            found[mode] = Counter({(row["k"], round(1000 * row["window_start"].timestamp())): row["n"] for row in rows})
            assert run.records_late == 0, mode
            run.close()
    wanted = expected(given, within, side, kind)
    assert found == dict.fromkeys(found, wanted)
