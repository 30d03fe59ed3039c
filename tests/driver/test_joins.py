"""The rows of joins that came too late, and the figures of an epoch: by side, to their outputs, on both executors."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.testing import run_graph
from mixedmode.testing.schemas import schema_of
from tests.harness import ManualClock, run
from tests.local_engine import LocalEngine, World, local_session

SCHEMAS = {"orders": "k string, n bigint, at timestamp", "payments": "k string, paid double, at timestamp"}


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def order(n: int, second: int, k: str = "a") -> dict[str, Any]:
    return {"k": k, "n": n, "at": at(second)}


def payment(paid: float, second: int, k: str = "a") -> dict[str, Any]:
    return {"k": k, "paid": paid, "at": at(second)}


def interval(left: Stream, right: Stream, late: dict[str, Any]) -> Stream:
    return left.interval_join(right, on="k", within=("0s", "10s"), select=["left.n", "right.paid"], name="j", **late)


def as_of(left: Stream, right: Stream, late: dict[str, Any]) -> Stream:
    return left.as_of_join(right, on="k", select=["left.n", "right.paid"], name="j", **late)


def job_of(build: Any, folder: Path, *, is_on_spark: bool = False, **late: Any) -> Job:
    sources = {name: Source.parquet(folder / name, event_time="at", schema=ddl) for name, ddl in SCHEMAS.items()}
    job = Job("joined", sources=sources, mode="mixed", checkpoint_dir=folder / "checkpoints")
    orders = job.source("orders")
    left = orders.sql("SELECT k, n, at FROM orders") if is_on_spark else orders
    return job.output("o", build(left, job.source("payments"), late), Sink.parquet(folder / "out"))


@pytest.mark.parametrize("is_on_spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_late_rows_of_a_side_go_to_its_output_with_its_columns(tmp_path: Path, *, is_on_spark: bool) -> None:
    late = {f"late_{side}": Sink.parquet(tmp_path / f"late-{side}") for side in ("left", "right")}
    found = run_graph(
        job_of(interval, tmp_path, is_on_spark=is_on_spark, **late),
        {"orders": [order(1, 30)], "payments": [payment(0.5, 31)]},
        live=[{"orders": [order(2, 29), order(3, 30)], "payments": [payment(0.25, 28), payment(0.75, 5)]}],
    )
    assert sorted(found) == ["j-late-left", "j-late-right"]
    assert found["late-left"] == [order(2, 29)]
    assert [row["paid"] for row in found["j-late-right"]] == [0.25, 0.75]
    assert found.table("o") == [{"n": 1, "paid": 0.5}, {"n": 3, "paid": 0.5}]
    assert found.records_late == 3


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "is_twice"), [("SELECT at, k, n FROM orders", False), ("SELECT * FROM orders WHERE n > 0", True)]
)
def test_sources_are_read_once_if_the_rows_of_a_join_are_their_records(
    tmp_path: Path, sql: str, *, is_twice: bool
) -> None:
    for name in SCHEMAS:
        (tmp_path / name).mkdir()
    by_spark = {"options": {"mergeSchema": "false"}}  # tasks, which read a file once, do not know Spark's options
    sources = {name: one.model_copy(update=by_spark) for name, one in job_of(as_of, tmp_path).settings.sources.items()}
    job = Job("joined", sources=sources, mode="mixed", checkpoint_dir=tmp_path / "checkpoints")
    joined = as_of(job.source("orders").sql(sql), job.source("payments"), {})
    assert ("read twice" in job.output("o", joined, Sink.parquet(tmp_path / "out")).explain()) is is_twice


@pytest.mark.parametrize(("build", "fan_outs"), [(interval, [(2, 2), (3, 3)]), (as_of, [(0, 0), (0, 0)])])
def test_an_epoch_reports_late_rows_by_side_and_the_fan_out(
    tmp_path: Path, build: Any, fan_outs: list[tuple[int, int]]
) -> None:
    world = World()

    def arrive(number: int, **rows: list[dict[str, Any]]) -> None:
        for name, own in rows.items():
            world.files[f"{name}/{number}"] = pa.Table.from_pylist(own, schema_of(SCHEMAS[name], where=""))

    arrive(0, orders=[order(1, 30), order(1, 1, "b")], payments=[payment(0.5, 31), payment(1.5, 32)])
    later = partial(arrive, 1, orders=[order(2, 29), order(3, 31)], payments=[payment(0.25, 28), payment(2.5, 33)])
    clock = ManualClock(1000 * int(at(40).timestamp()))
    found = run(job_of(build, tmp_path), local_session(world), feed=[later], engine=LocalEngine, clock=clock)
    figures = [event.joins["j"] for event in found.committed]
    assert [one.late for one in figures] == [(0, 0), (1, 1)]
    assert [(one.fan_out_max, one.fan_out_p99) for one in figures] == fan_outs
