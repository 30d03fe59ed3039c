"""Arguments of a process step besides its function: inputs whose rows every subtask has, and the forms of Spark."""

from collections.abc import Mapping
from typing import Any, TypedDict

from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import RowsAs, TimeMode
from mixedmode.connectors.calls import given_arguments
from mixedmode.job.broadcasts import Broadcast, specs_of

__all__ = ["ProcessArguments", "process_settings"]


class ProcessArguments(TypedDict, total=False):
    """Arguments of a process function that asks for rows of other streams, or that is a class of Spark.

    broadcast: {name: stream.broadcast(...)} of inputs whose rows every subtask has; the function asks for them by name.
    late: with `broadcast`, the sink for records that come before the watermark; by default they are only counted.
    time_mode: of a StatefulProcessor of Spark, the timeMode of its transformWithState.
    rows_as: of a StatefulProcessor, `pandas` if it is written for transformWithStateInPandas; by default `row`.
    """

    broadcast: Mapping[str, Broadcast[Any]]
    late: SinkSpec
    time_mode: TimeMode
    rows_as: RowsAs


def process_settings(arguments: ProcessArguments) -> dict[str, Any]:
    """Return the settings of a step for these arguments. Raise TypeError for an unknown one."""
    given = given_arguments(arguments, ProcessArguments, "process")
    return {
        "broadcast": specs_of(given.get("broadcast")),
        "late": given.get("late"),
        "time-mode": given.get("time_mode"),
        "rows-as": given.get("rows_as"),
    }
