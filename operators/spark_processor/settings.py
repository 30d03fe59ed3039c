"""The settings of a step with a class of Spark."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

__all__ = ["ProcessorStep", "RowsAs", "TimeMode"]

TimeMode: TypeAlias = Literal["None", "EventTime", "ProcessingTime"]
RowsAs: TypeAlias = Literal["row", "pandas"]


@dataclass(frozen=True, slots=True)
class ProcessorStep:
    """The step of a class of Spark. A process function of mixedmode has neither time_mode nor rows_as.

    time_mode: the timeMode of transformWithState; a StatefulProcessor needs it.
    rows_as: `row` for a class of transformWithState, `pandas` for one of transformWithStateInPandas; None is `row`.
    keys, records, output: the columns of the key, the input and the rows; () if the class is only inspected.
    time_zone: the time zone of Spark's session, in which the class sees timestamps.
    """

    time_mode: TimeMode | None = None
    rows_as: RowsAs | None = None
    keys: tuple[pa.Field, ...] = ()
    records: tuple[pa.Field, ...] = ()
    output: tuple[pa.Field, ...] = ()
    time_zone: str = "UTC"

    @property
    def settings(self) -> dict[str, str]:
        """The settings that are set, by their keys in a job file."""
        every = {"time-mode": self.time_mode, "rows-as": self.rows_as}
        return {key: value for key, value in every.items() if value is not None}
