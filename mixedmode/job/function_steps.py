"""Functions over two streams in Python. In their arguments the streams are called `left` and `right`.

matched = orders.co_process(payments, on="order", function=Matching, output="order string, paid timestamp")
"""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, TypedDict

from mixedmode.config.function_steps import CoProcessStep
from mixedmode.config.load import checked_section, resolve_step
from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import FileName, PlainValue
from mixedmode.job.arguments import argument
from mixedmode.job.joins import given_arguments
from mixedmode.operators.classes import class_reference

__all__ = ["CoProcessArguments", "co_process_step"]


class CoProcessArguments(TypedDict, total=False):
    """Arguments of a co-process function.

    event_time: the column of `output` with the event time of its rows, for windows in later steps.
    args: arguments for the class, by name.
    outputs: {tag: SideOutput} for the rows of each side output.
    on_error: what to do with a record on which the function raised. `fail` stops the job. `skip` counts the record and
        leaves it out. `dead-letter` writes it to the sink `dead_letter`.
    dead_letter: the sink for these records; only with `on_error="dead-letter"`.
    folder: the folder that the module is imported from. By default, a class has the folder that it came from, and a
        name has the current folder.
    name: the name of the step.
    parallelism: the number of subtasks.
    """

    event_time: str
    args: Mapping[str, PlainValue]
    outputs: Mapping[str, SinkSpec]
    on_error: Literal["fail", "skip", "dead-letter"]
    dead_letter: SinkSpec
    folder: FileName
    name: str
    parallelism: int


def co_process_step(
    on: str | Sequence[str], function: str | type, output: str, arguments: CoProcessArguments
) -> CoProcessStep:
    """Return a step over two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given = given_arguments(arguments, CoProcessArguments, "co_process")
    place = "Stream.co_process"
    values = function_values(on, function, output, given, place)
    step = checked_section(CoProcessStep, values, place=place, name=argument)
    return resolve_step(step, FilePath())


def function_values(
    on: str | Sequence[str], function: str | type, output: str, given: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """Return the settings of a step with a function over two inputs, by the keys of a job file."""
    reference, home = class_reference(function, place=place)
    of_step = {name: given[name] for name in ("name", "parallelism") if name in given}
    own = {name.replace("_", "-"): value for name, value in given.items() if name not in of_step}
    folder = {"folder": str(own.pop("folder", home))} if own.get("folder") or home else {}
    inputs = {"left": "input AS left", "right": "input AS right", "on": on}
    return {**of_step, "co-process": {**inputs, "class": reference, "output": output, **folder, **own}}
