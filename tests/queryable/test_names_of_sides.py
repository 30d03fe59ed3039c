"""The right part of the state of a step with two inputs has the names of the right, not those of the left's keys.

The sides have the same columns, and `on` compares `k` of the left with `j` of the right. So the right has a column `k`
of its own, and the left a column `j`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo

from mixedmode import read_state
from mixedmode.cli.state import print_state
from mixedmode.cli.state_format import StateFormat
from mixedmode.driver.state_source import StateDataSource
from mixedmode.process import CoGroupFunction
from mixedmode.queryable import open_state
from mixedmode.serve.state import steps_document
from tests.queryable.jobs import RunningJob, rows_of

DDL = "k string, j string, v bigint, at timestamp"
SELECT = ["left.*", "right.k AS other_k", "right.j AS other_j", "right.v AS other_v"]


class Nothing(CoGroupFunction):
    """Emits nothing."""

    def co_group(self, _left: Any, _right: Any, _context: Any) -> None:
        """Return no rows."""


def as_of(job: Any, on: Any) -> Any:
    return job.source("a").as_of_join(job.source("b"), on=on, select=SELECT)


def interval(job: Any, on: Any) -> Any:
    return job.source("a").interval_join(job.source("b"), on=on, within=("-1h", "1h"), select=SELECT)


def regular(job: Any, on: Any) -> Any:
    return job.source("a").join(job.source("b"), on=on, select=SELECT)


def grouped(**window: Any) -> Callable[[Any, Any], Any]:
    return lambda job, on: job.source("a").co_group(job.source("b"), on=on, function=Nothing, output="n long", **window)


def job_of(folder: Path, build: Callable[[Any, Any], Any], on: Any) -> RunningJob:
    """Return a job after an epoch. The rows at minute 0 are before the watermark, so an as-of join does not keep them.

    The row of the right at minute 9 waits in every step.
    """
    job = RunningJob(folder, lambda job: build(job, on), ddl=DDL, sources=("a", "b"))
    left = [{"k": "x", "j": "left", "v": 1, "at": 9}]
    right = [{"k": "right", "j": "x", "v": 2, "at": at} for at in (0, 9)]
    job.epoch({"a": left, "b": right})
    job.epoch({"a": [], "b": []})
    return job


PARTS = pytest.mark.parametrize(
    ("build", "left", "right"),
    [
        (as_of, "waiting-left", "waiting-right"),
        (as_of, None, "current"),
        (interval, "left", "right"),
        (regular, "left", "right"),
        (grouped(tumbling="1h"), "waiting-left", "waiting-right"),
        (grouped(session="1h"), "waiting-left", "waiting-right"),
    ],
    ids=["as-of", "as-of-current", "interval", "regular", "co-group", "co-group-sessions"],
)


def shown(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["k"], row["j"], row["v"]) for row in rows}


@PARTS
def test_each_side_is_read_with_its_own_names_in_all_ways(
    tmp_path: Path, build: Callable[[Any, Any], Any], left: str | None, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tmp_path, build, "left.k = right.j")
    with open_state(job.checkpoints) as state:
        (step,) = state.steps
        listed = {part["name"]: [key["name"] for key in part["key"]] for part in parts_of(steps_document(state))}
    for name, key, expected in ((left, "k", ("x", "left", 1)), (right, "j", ("right", "x", 2))):
        if name is None:
            continue
        found = rows_of(read_state(job.checkpoints, step, name=name))
        assert shown(found) == {expected}
        assert rows_of(read_state(job.checkpoints, step, name=name, keys=[{key: "x"}])) == found
        assert rows_of(read_state(job.checkpoints, step, name=name, keys=["right", "left"])) == []
        assert listed[name] == [key]
        print_state(str(job.checkpoints), step, ["x"], name=name, form=StateFormat.CSV)
        assert "x" in capsys.readouterr().out
        source = StateDataSource({"path": str(job.checkpoints), "step": step, "name": name})
        for column, value in zip("kj", expected, strict=False):
            reader = source.reader(source.schema())
            reader.pushFilters([EqualTo((column,), value)])
            batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
            assert shown([row for batch in batches for row in batch.to_pylist()]) == {expected}


@PARTS
def test_a_column_that_two_entries_of_on_name_is_shown_once(
    tmp_path: Path, build: Callable[[Any, Any], Any], left: str | None, right: str
) -> None:
    job = job_of(tmp_path, build, ["left.k = right.j", "left.k = right.j"])
    with open_state(job.checkpoints) as state:
        (step,) = state.steps
        for name, expected in ((left, ("x", "left", 1)), (right, ("right", "x", 2))):
            if name is not None:
                assert shown(state.read(step, name=name, keys=[("x", "x")]).table.to_pylist()) == {expected}


def parts_of(document: Any) -> list[Any]:
    (step,) = document["steps"]
    return list(step["parts"])
