"""Conversion between the arguments of the Python API and the settings of the job file.

An argument is a setting under a shorter name. An error in the setting is reported under the argument's name.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar

from mixedmode.config.arguments import of_type
from mixedmode.config.document import Path
from mixedmode.config.execution import RuntimeMode
from mixedmode.connectors.calls import Duration, FileName, Size, SparkValue, argument_at, given_arguments, nested
from mixedmode.operators.classes import class_reference

T = TypeVar("T")
_OF_JOB = frozenset({"execution", "pipeline", "state"})  # sections of settings that a job has, and no step
_OF_STEP = ("name", "parallelism")
Mode = Literal["batch", "streaming", "mixed", "automatic"] | RuntimeMode


class AutoscalerArguments(TypedDict, total=False):
    """The argument `autoscaler`: targets and bounds. Passing it, even empty, switches the autoscaler on.

    min_parallelism: the fewest subtasks that it chooses.
    max_parallelism: the most subtasks that it chooses.
    target_utilization: part of the time, above 0 and at most 1, in which an epoch is running.
    target_lag: longest time that a record may wait beyond the checkpointing interval.
    target_throughput: most records per second for one subtask.
    cool_down: least time between two changes.
    """

    min_parallelism: int
    max_parallelism: int
    target_utilization: float
    target_lag: Duration
    target_throughput: int
    cool_down: Duration


class JobArguments(TypedDict, total=False):
    """The arguments of a job beside its name and sources. Job has their description; None is an argument left out."""

    mode: Mode | None
    parallelism: int | None
    checkpoint_dir: FileName | None
    checkpoint_interval: Duration | None
    checkpoints_retained: int | None
    checkpoint_verification: Literal["checksums", "sizes"] | None
    checkpoint_access: Literal["owner", "umask"] | None
    checkpoint_timeout: Duration | None
    tolerable_failed_checkpoints: int | None
    interval_during_backlog: Duration | None
    max_parallelism: int | None
    backlog_parallelism: int | None
    end_of_key_watermark: Literal["greatest", "max"] | None
    backlog_emit: Literal["final", "all"] | None
    autoscaler: AutoscalerArguments | None
    watermark_lag_threshold: Duration | None
    sort_memory: Size | None
    functions: Mapping[str, str | Callable[..., Any]] | None
    spark: Mapping[str, SparkValue] | None


#: sections of a step whose settings are arguments
_OWN_SECTIONS = frozenset({"join", "co-process", "co-group", "top", "deduplicate", "over", "apply-changes"})
#: {path of a setting below such a section of a step with two inputs: its argument}, as in _ARGUMENTS
_OF_TWO_INPUTS: dict[Path, str] = {
    ("late", "left"): "late_left",
    ("late", "right"): "late_right",
    ("as-of", "tie-break"): "tie_break",
    ("as-of", "tolerance"): "tolerance",
    ("as-of", "strictly"): "strictly",
    ("as-of", "deleted"): "deleted",
}
#: {path of a setting: its argument}, where the argument is not the first key of the path with _ instead of -
_ARGUMENTS: dict[Path, str] = {
    ("execution", "runtime-mode"): "mode",
    ("execution", "interval-during-backlog"): "interval_during_backlog",
    ("execution", "checkpointing", "interval"): "checkpoint_interval",
    ("execution", "checkpointing", "num-retained"): "checkpoints_retained",
    ("execution", "checkpointing", "verify"): "checkpoint_verification",
    ("execution", "checkpointing", "access"): "checkpoint_access",
    ("execution", "checkpointing", "timeout"): "checkpoint_timeout",
    ("execution", "checkpointing", "tolerable-failed-checkpoints"): "tolerable_failed_checkpoints",
    ("execution", "checkpointing", "dir"): "checkpoint_dir",
    ("execution", "backlog", "parallelism"): "backlog_parallelism",
    ("execution", "backlog", "end-of-key-watermark"): "end_of_key_watermark",
    ("execution", "backlog", "emit"): "backlog_emit",
    ("pipeline", "max-parallelism"): "max_parallelism",
    ("pipeline", "backlog", "watermark-lag-threshold"): "watermark_lag_threshold",
    ("state", "backlog", "sort-memory"): "sort_memory",
    ("key-by",): "columns",
    ("aggregate",): "outputs",
    ("window", "tumbling", "size"): "tumbling",
    ("window", "sliding", "size"): "sliding",
    ("window", "sliding", "slide"): "slide",
    ("window", "cumulating", "size"): "cumulating",
    ("window", "cumulating", "step"): "step",
    ("window", "session", "gap"): "session",
    ("window", "global", "count"): "count",
    ("process",): "function",
    ("async-map",): "function",
    ("map",): "function",
    ("class",): "function",
    **_OF_TWO_INPUTS,
}


def job_settings(arguments: Mapping[str, Any], call: str) -> dict[str, Any]:
    """Return the sections of a job for JobArguments. Raise TypeError for another argument.

    call: for messages.
    """
    given = dict(given_arguments(arguments, JobArguments, call))
    autoscaler, functions = given.pop("autoscaler", None), given.pop("functions", None)
    paths = {name: path for path, name in _ARGUMENTS.items() if path[0] in _OF_JOB}
    values = {paths.get(name, (name,)): value for name, value in given.items()}
    values["execution", "autoscaler"] = autoscaler_settings(autoscaler)
    values["functions",] = None if functions is None else _functions_settings(functions)
    return nested(values)


def autoscaler_settings(given: AutoscalerArguments | None) -> dict[str, Any] | None:
    """Return the section `execution.autoscaler` for the argument; None if the argument was left out."""
    if given is None:
        return None
    of_type(given, Mapping, "Job: autoscaler", "a dictionary, such as {'max_parallelism': 8}")
    return {"enabled": True, **{str(key).replace("_", "-"): value for key, value in given.items()}}


def _functions_settings(functions: Mapping[str, str | Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of functions for SQL. Raises InvalidJobError for one that cannot be imported."""
    found = {}
    for name, function in of_type(functions, Mapping, "Job: functions", "a dictionary, such as {'f': f}").items():
        reference, home = class_reference(function, place="Job", noun="function")
        found[name] = {"function": reference, **({} if home is None else {"folder": str(home)})}
    return found


def argument(path: Path) -> str:
    """Return the argument for the setting at `path`: `checkpoint_dir`, `sources['a.b']`, `columns[1]`."""
    if path[:2] == ("execution", "autoscaler"):
        return "autoscaler" + "".join(f"[{str(part).replace('-', '_')!r}]" for part in path[2:] if part != "enabled")
    if path[:2] == ("over", "columns") and len(path) > 2:
        return str(path[2])  # each column is an argument
    if path[0] in _OWN_SECTIONS and len(path) > 1:
        path = path[1:]
    if path[0] == "aggregate" and len(path) > 1:
        return str(path[1])  # each output is an argument
    if path[0] == "window" and len(path) > 2:
        return _ARGUMENTS.get(path) or str(path[2]).replace("-", "_")  # the same for every kind of window
    return argument_at(path, _ARGUMENTS)


def two_input_settings(section: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a step over the streams `left` and `right`, for arguments by name.

    section: the section of the step that has all settings but its name and its parallelism.
    """
    paths = {name: path for path, name in _OF_TWO_INPUTS.items()}
    given = {"left": "input AS left", "right": "input AS right", **arguments}
    return nested(
        {
            (name,) if name in _OF_STEP else (section, *paths.get(name, (name.replace("_", "-"),))): value
            for name, value in given.items()
        }
    )


def dimension_argument(path: Path) -> str:
    """Return the argument of Job.dimension for the setting at `path`: `name`, `table['path']`."""
    if path[0] != "dimensions":
        return argument(path)
    return "table" + "".join(f"[{part!r}]" for part in path[2:]) if len(path) > 2 else "name"
