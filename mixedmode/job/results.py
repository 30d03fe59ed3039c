"""The result of a run, and the tables of a job's outputs, for programs that run jobs in Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from mixedmode.config.arguments import checked_arguments
from mixedmode.config.graph import MAIN_OUTPUT, output_name
from mixedmode.config.spec import JobSpec

if TYPE_CHECKING:
    from mixedmode.driver.events import EpochCommitted, Event

__all__ = ["JobResult", "RunTotals"]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one run. The numbers are of this run only, not of earlier runs of the same job.

    `epochs`: how many were committed. `records` were read; `records_late` of them came too late for every window.
    `rows` were written to the outputs of whole steps. `seconds`: from the call to its end.
    """

    spec: JobSpec = field(repr=False)
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

    @checked_arguments
    def table(self, output: str = MAIN_OUTPUT) -> pa.Table:
        """Return the table that an output holds now. Raise InvalidJobError as mixedmode.read_table does."""
        from mixedmode.driver.tables import read_table_of  # noqa: PLC0415 - loads pyspark, which a job need not

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
