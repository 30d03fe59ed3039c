"""The result of a run, and the tables of a job's outputs, for programs that run jobs in Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mixedmode.config.document import Path as SettingPath
from mixedmode.config.document import path_text
from mixedmode.config.load import load_job
from mixedmode.config.spec import JobSpec
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError

if TYPE_CHECKING:
    from mixedmode.driver.events import EpochCommitted, Event

__all__ = ["MAIN_OUTPUT", "JobResult", "RunTotals", "output_name", "read_table_of"]

MAIN_OUTPUT = "sink"
_JOB_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one run. The numbers are of this run only, not of earlier runs of the same job.

    `epochs`: how many were committed. `records` were read; `records_late` of them came too late for every window.
    `rows` were written to the outputs of whole steps. `seconds`: from the call to its end.
    """

    spec: JobSpec
    epochs: int
    records: int
    records_late: int
    rows: int
    seconds: float

    @property
    def outputs(self) -> Mapping[str, str]:
        """Return {output: kind and place of its sink}.

        The output of a chain is `sink`; those of whole steps have their names, and others are named as `steps[0].late`.
        """
        return {output_name(path): sink.place for path, sink in self.spec.sinks.items()}

    def table(self, output: str = MAIN_OUTPUT) -> pa.Table:
        """Return the table that an output holds now. Raise InvalidJobError as mixedmode.read_table does."""
        return read_table_of(self.spec, output)


class RunTotals:
    """An observer that adds up the numbers of a result."""

    def __init__(self) -> None:
        self._epochs: list[EpochCommitted] = []

    def __call__(self, event: "Event") -> None:
        """Count a committed epoch."""
        from mixedmode.driver.events import EpochCommitted  # noqa: PLC0415 - the driver is loaded only to run

        if isinstance(event, EpochCommitted):
            self._epochs.append(event)

    def result(self, spec: JobSpec, seconds: float) -> JobResult:
        """Return the result of the run."""
        return JobResult(
            spec,
            epochs=len(self._epochs),
            records=sum(event.records for event in self._epochs),
            records_late=sum(event.records_late for event in self._epochs),
            rows=sum(event.rows_out for event in self._epochs),
            seconds=seconds,
        )


def output_name(path: SettingPath) -> str:
    """Return the name of the output whose sink is at this path of the job: `sink`, its own name, or `steps[0].late`."""
    return str(path[1]) if path[0] == "outputs" else path_text(path)


def read_table_of(source: JobSpec | str | Path, output: str = MAIN_OUTPUT) -> pa.Table:
    """Return the table in an output folder, or in an output of a job or job file."""
    from mixedmode.sinks.table import read_output  # noqa: PLC0415 - loads pyspark, which a job in Python need not

    if not isinstance(source, JobSpec):
        if Path(source).suffix not in _JOB_FILES:
            return read_output(source)
        source = load_job(source).spec
    sinks = {output_name(path): sink for path, sink in source.sinks.items()}
    if output not in sinks:
        msg = f"the job has no output {output}.{did_you_mean(output, sinks)} Its outputs: {', '.join(sinks)}."
        raise InvalidJobError(msg)
    folder = sinks[output].folder
    if folder is None:
        msg = (
            "this output is no folder of files, so it is read where it writes: PostgreSQL with psql, Kafka with a "
            f"consumer, a table of a catalog with Spark. output={output}, sink={sinks[output].place}"
        )
        raise InvalidJobError(msg)
    return read_output(folder)
