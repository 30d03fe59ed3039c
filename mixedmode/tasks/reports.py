"""Reports of subtasks to the driver: names, sizes, counts and checksums of the written files, as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from mixedmode.checkpoint.runs import Replacement
from mixedmode.checkpoint.types import RunFile, StagedFile
from mixedmode.keys import KeyGroupRange
from mixedmode.operators.fan_out import FanOut
from mixedmode.tasks.failures import decode_failure
from mixedmode.tasks.progress import Progress

REPORT_COLUMN = "_report"


@dataclass(frozen=True, slots=True)
class SubtaskReport:
    """The report of one subtask. `progress` is what the map tasks of its stage have sent, the same in every subtask.

    `migration_seconds`: the time for writing and storing the new runs of the state. `runs`: the new runs; `merged`:
    older runs that were merged, with the run that replaces them. `rows_out` counts the rows of the main output,
    `skipped` the records that were left out because a function failed on them. `items`: the list of a subtask of a map
    stage. `attempt`: Spark's id of the task attempt. `profile`: {stage: seconds of work}; in subtask 0 also of all map
    tasks. `fan_out`: of a join.
    """

    subtask: int
    progress: Progress = Progress()  # noqa: RUF009 - frozen
    pairs: int = 0
    rows_out: int = 0
    skipped: int = 0
    spilled_runs: int = 0
    migration_seconds: float = 0.0
    runs: tuple[RunFile, ...] = ()
    merged: tuple[Replacement, ...] = ()
    outputs: tuple[StagedFile, ...] = ()
    items: tuple[str, ...] = ()
    attempt: int = 0
    fan_out: FanOut = field(default_factory=FanOut)
    profile: Mapping[str, float] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Encode as JSON."""
        report = msgspec.to_builtins(self) | {
            "progress": self.progress.encode().decode(),
            "fan_out": self.fan_out.encode(),
        }
        return json.dumps({"report": report}).encode()


def decode_report(data: bytes) -> SubtaskReport:
    """Decode the report of a subtask. Raise the error that the subtask sent instead."""
    parts = json.loads(data)
    if "report" not in parts:
        raise decode_failure(data)
    report = parts["report"]
    report["progress"] = Progress.decode(report["progress"].encode())
    report["runs"] = tuple(_run(run) for run in report["runs"])
    report["merged"] = tuple(_replacement(one) for one in report["merged"])
    report["outputs"] = tuple(StagedFile(**output) for output in report["outputs"])
    report["items"] = tuple(report["items"])
    report["fan_out"] = FanOut.decode(report["fan_out"])
    return SubtaskReport(**report)


def report_batch(report: bytes) -> pa.RecordBatch:
    """Return an encoded report, or an error, as the only row of a task that yields nothing else."""
    return pa.record_batch([pa.array([report], pa.binary())], names=[REPORT_COLUMN])


def _run(run: dict[str, Any]) -> RunFile:
    return RunFile(**{**run, "merged_from": tuple(run["merged_from"])})


def _replacement(one: dict[str, Any]) -> Replacement:
    run = None if one["run"] is None else _run(one["run"])
    return Replacement(KeyGroupRange(**one["groups"]), tuple(one["replaced"]), run)
