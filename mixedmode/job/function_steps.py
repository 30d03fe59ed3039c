"""Functions over two streams in Python. In their arguments the streams are called `left` and `right`.

matched = orders.co_process(payments, on="order", function=Matching, output="order string, paid timestamp")
"""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, TypedDict, TypeVar

from mixedmode.config.arguments import place_of
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.load import checked_section, resolve_step
from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import Duration, FileName, PlainValue, given_arguments
from mixedmode.job.arguments import argument
from mixedmode.job.broadcasts import Broadcast, specs_of
from mixedmode.job.joins import LATE_ARGUMENTS
from mixedmode.job.keyed import window_settings
from mixedmode.operators.classes import class_reference

__all__ = ["CoGroupArguments", "CoProcessArguments", "co_group_step", "co_process_step"]


class CoProcessArguments(TypedDict, total=False):
    """Arguments of a co-process function.

    event_time: the column of `output` with the event time of its rows, for windows in later steps.
    args: arguments for the class, by name.
    outputs: {tag: side_output(...)} for the rows of each side output.
    on_error: what to do with a record on which the function raised. `fail` stops the job. `skip` counts the record and
        leaves it out. `dead-letter` writes it to the sink `dead_letter`.
    dead_letter: the sink for these records; only with `on_error="dead-letter"`.
    broadcast: {name: stream.broadcast(...)} of inputs whose rows every subtask has (docs/broadcast.md).
    late_left, late_right: with `broadcast`, sinks for rows of each side that come too late; by default such rows are
        only counted.
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
    broadcast: Mapping[str, Broadcast[Any]]
    late_left: SinkSpec
    late_right: SinkSpec
    folder: FileName
    name: str
    parallelism: int


class CoGroupArguments(TypedDict, total=False):
    """Arguments of a co-group function. Exactly one of the first four is required; it selects the kind of window.

    tumbling: the size of a window; windows do not overlap.
    sliding: the size of a window; `slide` is required, too.
    cumulating: the greatest size of a window; `step` is required, too.
    session: how long no row of a key must come, on either side, for its session to end.
    slide: the time from the start of one sliding window to the start of the next.
    step: the time from the end of one cumulating window to the end of the next.
    offset: how much later than at multiples of their size since 1970 windows begin.
    time_zone: the time zone in which windows of whole days begin at midnight; by default UTC.
    args: arguments for the class, by name.
    on_error: what to do if the function raises for a key and window. `fail` stops the job. `skip` counts the rows and
        leaves them out. `dead-letter` writes them to the sink `dead_letter`.
    dead_letter: the sink for these rows; only with `on_error="dead-letter"`.
    late_left, late_right: sinks for rows of each side that come too late for all of their windows; by default such
        rows are only counted.
    folder: the folder that the module is imported from. By default, a class has the folder that it came from, and a
        name has the current folder.
    name: the name of the step.
    parallelism: the number of subtasks.
    """

    tumbling: Duration
    sliding: Duration
    cumulating: Duration
    session: Duration
    slide: Duration
    step: Duration
    offset: Duration
    time_zone: str
    args: Mapping[str, PlainValue]
    on_error: Literal["fail", "skip", "dead-letter"]
    dead_letter: SinkSpec
    late_left: SinkSpec
    late_right: SinkSpec
    folder: FileName
    name: str
    parallelism: int


_WINDOW = ("tumbling", "sliding", "cumulating", "session", "slide", "step", "offset", "time_zone")
AnyStep = TypeVar("AnyStep", CoProcessStep, CoGroupStep)


def co_process_step(
    on: str | Sequence[str], function: str | type, output: str, arguments: CoProcessArguments
) -> CoProcessStep:
    """Return a step over two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given = dict(given_arguments(arguments, CoProcessArguments, "co_process"))
    if "broadcast" in given:
        given["broadcast"] = specs_of(given["broadcast"])
    return _step(CoProcessStep, {"on": on, "output": output}, function, given, "Stream.co_process")


def co_group_step(
    on: str | Sequence[str], function: str | type, output: str, arguments: CoGroupArguments
) -> CoGroupStep:
    """Return a step over two inputs whose names are not known yet. Raise InvalidJobError for a wrong argument."""
    given, place = dict(given_arguments(arguments, CoGroupArguments, "co_group")), "Stream.co_group"
    window: Any = {name: given.pop(name) for name in _WINDOW if name in given}
    own = {"on": on, "output": output, **window_settings(window, place)}
    return _step(CoGroupStep, own, function, given, place)


def _step(
    model: type[AnyStep], settings: Mapping[str, Any], function: str | type, given: Mapping[str, Any], place: str
) -> AnyStep:
    reference, home = class_reference(function, place=place)
    of_step = {name: given[name] for name in ("name", "parallelism") if name in given}
    late = {side: given[name] for name, side in LATE_ARGUMENTS.items() if name in given}
    own = {
        name.replace("_", "-"): value
        for name, value in {**given, **({"late": late} if late else {})}.items()
        if name not in {**of_step, **LATE_ARGUMENTS}
    }
    home = own.pop("folder", home)
    folder = {} if home is None else {"folder": place_of(home, f"{place}: folder")}
    inputs = {"left": "input AS left", "right": "input AS right", "class": reference}
    values = {**of_step, model.section: {**inputs, **settings, **folder, **own}}
    return resolve_step(checked_section(model, values, place=place, name=argument), FilePath())
