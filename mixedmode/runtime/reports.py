"""What a subtask tells the driver: names, sizes, counts and checksums of what it wrote, as JSON."""

import json
from dataclasses import asdict, dataclass

from mixedmode.checkpoint.types import RunFile, StagedFile
from mixedmode.runtime.failures import decode_failure
from mixedmode.runtime.progress import Progress

REPORT_COLUMN = "_report"


@dataclass(frozen=True, slots=True)
class SubtaskReport:
    """What one subtask did. `progress` is of the whole epoch, the same in every subtask of a stage.

    `migration_seconds` is the time that writing and storing the state's new runs took. `runs` are new; each of
    `merged` takes the place of older ones. `rows_out` counts the rows of the main output, `skipped` the
    records on which a function failed and that were left out.
    """

    subtask: int
    progress: Progress = Progress()  # noqa: RUF009 - frozen
    pairs: int = 0
    rows_out: int = 0
    skipped: int = 0
    spilled_runs: int = 0
    migration_seconds: float = 0.0
    runs: tuple[RunFile, ...] = ()
    merged: tuple[RunFile, ...] = ()
    outputs: tuple[StagedFile, ...] = ()

    def encode(self) -> bytes:
        """JSON; see `decode_report`."""
        report = asdict(self) | {"progress": self.progress.encode().decode()}
        return json.dumps({"report": report}).encode()


def decode_report(data: bytes) -> SubtaskReport:
    """The report of a subtask. Raises the error that the subtask sent instead."""
    parts = json.loads(data)
    if "report" not in parts:
        raise decode_failure(data)
    report = parts["report"]
    report["progress"] = Progress.decode(report["progress"].encode())
    for kind in ("runs", "merged"):
        report[kind] = tuple(RunFile(**{**run, "merged_from": tuple(run["merged_from"])}) for run in report[kind])
    report["outputs"] = tuple(StagedFile(**output) for output in report["outputs"])
    return SubtaskReport(**report)
