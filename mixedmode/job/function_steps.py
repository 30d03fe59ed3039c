"""Functions over two streams in Python. In their arguments the streams are called `left` and `right`.

matched = orders.co_process(payments, on="order", function=Matching, output="order string, paid timestamp")
"""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar

from mixedmode.config.arguments import place_of
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.load import checked_section, resolve_step
from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import FileName, PlainValue, given_arguments
from mixedmode.job.arguments import argument, two_input_settings
from mixedmode.job.broadcasts import Broadcast, specs_of
from mixedmode.job.joins import LateRowsArguments
from mixedmode.job.keyed import EventWindowArguments, window_settings
from mixedmode.operators.classes import class_reference

__all__ = ["CoGroupArguments", "CoProcessArguments", "FunctionArguments", "co_group_step", "co_process_step"]


class FunctionArguments(LateRowsArguments, total=False):
    """Arguments of functions over two streams, with those of LateRowsArguments.

    args: arguments for the class, by name.
    on_error: what to do with a record, or with the rows of a key and window, on which the function raised. `fail` stops
        the job. `skip` counts them and leaves them out. `dead-letter` writes them to the sink `dead_letter`.
    dead_letter: the sink for these records; only with `on_error="dead-letter"`.
    folder: the folder that the module is imported from. By default, a class has the folder that it came from, and a
        name has the current folder.
    name: the name of the step.
    parallelism: the number of subtasks.
    """

    args: Mapping[str, PlainValue]
    on_error: Literal["fail", "skip", "dead-letter"]
    dead_letter: SinkSpec
    folder: FileName
    name: str
    parallelism: int


class CoProcessArguments(FunctionArguments, total=False):
    """Arguments of a co-process function, with those of FunctionArguments. Rows are late only with `broadcast`.

    event_time: the column of `output` with the event time of its rows, for windows in later steps.
    outputs: {tag: side_output(...)} for the rows of each side output.
    broadcast: {name: stream.broadcast(...)} of inputs whose rows every subtask has (docs/broadcast.md).
    """

    event_time: str
    outputs: Mapping[str, SinkSpec]
    broadcast: Mapping[str, Broadcast[Any]]


class CoGroupArguments(FunctionArguments, EventWindowArguments, total=False):
    """Arguments of a co-group function: those of FunctionArguments, and the window of EventWindowArguments.

    Exactly one of `tumbling`, `sliding`, `cumulating` and `session` is required.
    """


AnyStep = TypeVar("AnyStep", CoProcessStep, CoGroupStep)


def co_process_step(
    on: str | Sequence[str], function: str | type, output: str, arguments: CoProcessArguments
) -> CoProcessStep:
    """Return a step over two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given = dict(given_arguments(arguments, CoProcessArguments, "co_process"))
    if "broadcast" in given:
        given["broadcast"] = specs_of(given["broadcast"])
    return _step(CoProcessStep, function, {"on": on, "output": output, **given}, "Stream.co_process")


def co_group_step(
    on: str | Sequence[str], function: str | type, output: str, arguments: CoGroupArguments
) -> CoGroupStep:
    """Return a step over two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given, place = dict(given_arguments(arguments, CoGroupArguments, "co_group")), "Stream.co_group"
    window: Any = {name: given.pop(name) for name in EventWindowArguments.__annotations__ if name in given}
    own = {"on": on, "output": output, **window_settings(window, place)}
    return _step(CoGroupStep, function, {**own, **given}, place)


def _step(model: type[AnyStep], function: str | type, arguments: Mapping[str, Any], place: str) -> AnyStep:
    reference, home = class_reference(function, place=place)
    folder = arguments.get("folder", home)
    code = {"class": reference, "folder": None if folder is None else place_of(folder, f"{place}: folder")}
    values = two_input_settings(model.section, {**arguments, **code})
    return resolve_step(checked_section(model, values, place=place, name=argument), FilePath())
