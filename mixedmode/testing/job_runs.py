"""The two ways to run a job in a test: in this process, and on Spark. Both are given the rows of each epoch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode import read_output
from mixedmode.config.execution import RuntimeMode
from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Job
from mixedmode.operators.interface import OP_COLUMN
from mixedmode.plan.keyed_operators import Where
from mixedmode.testing.epoch import EpochOutput
from mixedmode.testing.local_plan import local_plan
from mixedmode.testing.outputs import Outputs, Row
from mixedmode.testing.places import input_folder, output_folder

__all__ = ["Epochs", "Found", "run_here", "run_on_spark"]

EPOCH_COLUMN = "_epoch"  # of the rows in files
#: for each epoch, {source: its rows}
Epochs = Sequence[Mapping[str, pa.Table]]


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a run.

    `tables`: the rows of the outputs of whole steps as a reader sees them, ordered by their columns; the output of a
    job with `sink` is "". `rows`: all rows that were written, by name of the output; those of whole steps have `_op` if
    they have a key.
    """

    tables: Mapping[str, Sequence[Row]]
    rows: Mapping[str, Sequence[Row]]
    records_late: int
    records_skipped: int


def run_here(job: Job, where: Where, epochs: Epochs, folder: Path, clock_ms: int) -> Found:
    """Run a job of keyed steps in this process.

    The mode of the job says whether the first epoch is a batch, the backlog, or live.  where: names a place in the job.
    """
    spec = job.spec
    plan = local_plan(spec, where)
    mode = spec.execution.runtime_mode
    run = LocalRun(spec, plan, folder, clock_ms)
    try:
        for number, tables in enumerate(epochs):
            inputs = {name: [table] for name, table in tables.items()}
            if number or mode is RuntimeMode.STREAMING:
                run.run_live(inputs)
            elif mode is RuntimeMode.MIXED:
                run.run_backlog(inputs)
            else:
                run.run_batch(inputs)
        if mode is not RuntimeMode.BATCH:
            run.end()
    finally:
        run.close()
    fires_once = spec.execution.backlog.end_of_key_watermark != "max"  # else late windows fire again as new windows
    tables_now = {
        name: _ordered(_current(run.outputs[name], result.key_columns, is_strict=fires_once))
        for name, result in plan.results.items()
    }
    rows = {name: [row for one in tables for row in one.to_pylist()] for name, tables in run.outputs.items()}
    return Found(tables_now, rows, run.records_late, run.records_skipped)


def run_on_spark(job: Job, epochs: Epochs, folder: Path, outputs: Sequence[str]) -> Found:
    """Run a job on Spark until its input has ended, by one start.  outputs: their names.

    The rows of a live epoch arrive when the job has gone live, or has committed the live epoch before. Those without
    rows make no epoch.
    """
    for name in job.settings.sources:
        input_folder(folder, name).mkdir(parents=True)
    first_live = 0 if job.spec.execution.runtime_mode is RuntimeMode.STREAMING else 1
    arrivals = [partial(_arrive, folder, f"{number:06}.parquet", tables) for number, tables in enumerate(epochs)]
    waiting = [
        arrive
        for arrive, tables in zip(arrivals[first_live:], epochs[first_live:], strict=True)
        if any(rows.num_rows for rows in tables.values())
    ]
    counts, is_live = Counter[str](), False

    def follow(event: object) -> None:
        nonlocal is_live
        begins_live = getattr(event, "phase", None) == "live"
        is_live = is_live or begins_live
        is_committed = hasattr(event, "records_late")  # and records_skipped: a committed epoch
        for name in ("records_late", "records_skipped"):
            counts[name] += getattr(event, name, 0)
        if waiting and (begins_live or (is_live and is_committed)):
            waiting.pop(0)()

    for arrive in arrivals[:first_live]:
        arrive()
    job.run(until="drained", observers=[follow])
    assert not waiting, waiting  # each live epoch has let the next one in
    rows = {name: read_output(output_folder(folder, name), changes=True) for name in outputs}
    return Found(
        {name: _ordered(read_output(output_folder(folder, name)).to_pylist()) for name in job.results},
        {name: _without_epoch(table) for name, table in rows.items()},
        counts["records_late"],
        counts["records_skipped"],
    )


def _arrive(folder: Path, file: str, tables: Mapping[str, pa.Table]) -> None:
    """Write the rows of an epoch into the folders of their sources. A source without rows gets no file."""
    for name, rows in tables.items():
        if rows.num_rows:
            pq.write_table(rows, input_folder(folder, name) / file)


def _without_epoch(table: pa.Table) -> list[Row]:
    names = [name for name in table.column_names if name != EPOCH_COLUMN]  # an output without files has no such column
    rows: list[Row] = table.select(names).to_pylist()
    return rows


def _current(changes: Sequence[pa.Table], key: Sequence[str], *, is_strict: bool) -> list[Row]:
    outputs = Outputs(key, is_strict=is_strict)
    outputs.add(EpochOutput(main=[_with_op(table) for table in changes]))
    return outputs.table()


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """Return rows in the order of their columns, the first column first."""
    return sorted(rows, key=lambda row: [_place(value) for value in row.values()])


def _with_op(table: pa.Table) -> pa.Table:
    """Return the table with the column that Outputs expects."""
    if OP_COLUMN in table.column_names:
        return table
    return table.append_column(OP_COLUMN, pa.nulls(table.num_rows, pa.string()))


def _place(value: Any) -> Sequence[Any]:
    """Return a value that can be compared with all others of its column. NaN comes after all numbers, and NULL last."""
    if value is None:
        return (2,)
    if isinstance(value, list | dict):
        return (0, repr(value))
    return (1,) if value != value else (0, value)  # noqa: PLR0124 - NaN
