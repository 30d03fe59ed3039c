"""An answer says which of the keys that were asked for have no row, in each part of each kind of step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixedmode import read_state
from mixedmode.process import KeyedProcessFunction, MapState, ValueState
from mixedmode.queryable import open_state
from tests.queryable.jobs import RunningJob, rows_of
from tests.queryable.test_names_of_sides import grouped
from tests.queryable.test_reads import EPOCHS, counts, row

DDL = "_time string, timer string, value string, _fired string, _until string, v bigint, at timestamp"
SELECT = ["left.v"]


class Named(KeyedProcessFunction):
    """Has states with the names of columns that the parts of a state add."""

    value = ValueState(int)
    timer = MapState(str, int)

    def process_element(self, record: Any, context: Any) -> None:
        """Set all states."""
        self.value.value = record["v"]
        self.timer["x"] = record["v"]
        context.timers.register_event_time_timer(context.timestamp + 60_000_000)

    def on_timer(self, timestamp: int, context: Any) -> None:
        """Do nothing."""


def keyed(column: str, build: Callable[[Any], Any]) -> tuple[str, Callable[[Any], Any]]:
    return column, lambda job: build(job.source("a").key_by(column))


def joined(column: str, build: Callable[[Any, Any, str], Any]) -> tuple[str, Callable[[Any], Any]]:
    return column, lambda job: build(job.source("a"), job.source("b"), column)


JOBS = [
    keyed("v", lambda keyed: keyed.aggregate(n="count(*)")),
    keyed("_fired", lambda keyed: keyed.window(tumbling="10m").aggregate(n="count(*)")),
    keyed("_fired", lambda keyed: keyed.window(session="10m").aggregate(n="count(*)")),
    keyed("v", lambda keyed: keyed.window(count=9).aggregate(n="count(*)")),
    keyed("v", lambda keyed: keyed.top(2, order_by="v desc")),
    keyed("_time", lambda keyed: keyed.deduplicate(keep="first")),
    keyed("_time", lambda keyed: keyed.deduplicate(keep="any")),
    keyed("v", lambda keyed: keyed.over(total="sum(v)")),
    keyed("value", lambda keyed: keyed.apply_changes(sequence_by="v")),
    keyed("v", lambda keyed: keyed.apply_changes(sequence_by="at", history=True)),
    keyed("value", lambda keyed: keyed.process(Named, output="n long")),
    keyed("timer", lambda keyed: keyed.process(Named, output="n long")),
    joined("_time", lambda left, right, on: left.as_of_join(right, on=on, select=SELECT)),
    joined("_time", lambda left, right, on: left.interval_join(right, on=on, within=("-1h", "1h"), select=SELECT)),
    joined("v", lambda left, right, on: left.join(right, on=on, select=SELECT)),
    ("_time", lambda job: grouped(tumbling="10m")(job, "_time")),
    ("_time", lambda job: grouped(session="10m")(job, "_time")),
]


@pytest.mark.parametrize(("column", "build"), JOBS)
def test_every_part_has_its_key_column_and_says_which_keys_have_no_row(
    tmp_path: Path, column: str, build: Callable[[Any], Any]
) -> None:
    job = RunningJob(tmp_path, build, ddl=DDL, sources=("a", "b"))
    own = [
        {"_time": key, "timer": key, "value": key, "_fired": key, "_until": key, "v": int(key), "at": minute}
        for key, minute in (("1", 0), ("2", 8), ("3", 9))
    ]
    job.epoch({"a": own, "b": own})
    present = 0
    with open_state(job.checkpoints) as state:
        (step,) = state.steps
        for name in state.names(step):
            everything = state.read(step, name=name).table
            assert len(set(everything.column_names)) == everything.num_columns
            stored = {str(key) for key in everything.column(column).to_pylist()}
            keys = ["1", "8", "2", "3", "8"]
            answer = state.read(step, name=name, keys=keys)
            assert rows_of(answer.table) == rows_of(everything)
            assert [keys[at] for at in answer.missing] == [key for key in keys if key not in stored]
            assert state.read_keys(step, keys, name)[0].missing == answer.missing
            present += len(stored)
    assert present


def test_a_table_has_the_positions_of_missing_keys_in_its_metadata(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, counts)
    for rows in EPOCHS:
        job.epoch(rows)
    found = read_state(job.checkpoints, "aggregate-1", keys=["zz", "a", None, "yy"]).schema.metadata
    assert json.loads(found[b"mixedmode.missing"]) == [0, 3]
    assert b"mixedmode.missing" not in read_state(job.checkpoints, "aggregate-1", keys=["a"]).schema.metadata


def test_an_answer_that_a_limit_cuts_calls_no_key_missing(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, counts)
    job.epoch([row("a", 1, 0), row("b", 1, 0)])
    with open_state(job.checkpoints) as state:
        cut = state.read("aggregate-1", keys=["a", "b", "zz"], limit=1)
        assert (cut.next is not None, cut.missing) == (True, ())
        whole = state.read("aggregate-1", keys=["a", "b", "zz"], limit=2)
        assert (whole.next, whole.missing) == (None, (2,))
