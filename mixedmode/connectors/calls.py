"""The common parts of the Python calls of all kinds: `Source.parquet(...)`, `Sink.kafka(...)`, `Source.of(...)`.

A call returns the same frozen spec as a section of a job file, checked, with relative paths resolved against the
current directory of that moment. An argument is a setting under another name, and an error in the setting is reported
under the name of the argument.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Literal, TypedDict, TypeVar

from mixedmode.config.arguments import of_type
from mixedmode.config.connectors import Role, kinds_with
from mixedmode.config.document import Path
from mixedmode.config.load import checked_section, with_paths
from mixedmode.config.registry import ConnectorKind, connector_kinds, formats_of
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError

FileName = str | os.PathLike[str]
Duration = str | Literal[0]  # "1s", "1h30m", 0
Size = str | int  # "256MB", a number of bytes
SparkValue = str | int | float | bool
#: a value that YAML can hold, as an argument of a user's class
PlainValue = None | bool | int | float | str | Sequence["PlainValue"] | Mapping[str, "PlainValue"]

AnyConnector = TypeVar("AnyConnector", bound=SourceSpec | SinkSpec)
#: {path of a setting of every source: its argument}
_OF_EVERY_SOURCE: Mapping[Path, str] = {
    ("watermark", "out-of-orderness"): "out_of_orderness",
    ("watermark", "idle-timeout"): "idle_timeout",
    ("watermark", "max-ahead"): "max_ahead",
    ("watermark", "partition-column"): "partition_column",
}


class SourceArguments(TypedDict, total=False):
    """Arguments of every source.

    computed_columns: columns made of those of a record by SQL, by name, such as `{"at": "timestamp_millis(ts)"}`.
    event_time: the column that says when a record happened.
    out_of_orderness: how far the watermark stays behind the newest event time, so how late a record may come.
    idle_timeout: a source or partition without a record for this long no longer holds the watermark back.
    max_ahead: a record further ahead of the clock than this does not move the watermark.
        With `none`, every record moves it.
    partition_column: the column that says which partition a record comes from.
        Each partition has its own watermark, and the smallest is used.
    bounded: True if all input is present when the job starts.
    """

    computed_columns: Mapping[str, str]
    event_time: str
    out_of_orderness: Duration
    idle_timeout: Duration
    max_ahead: Duration | Literal["none"]
    partition_column: str
    bounded: bool


def source_of(file_format: str, arguments: Mapping[str, Any], *, call: str) -> SourceSpec:
    """Return a source of any installed kind, by its format. Raises InvalidJobError with everything that is wrong."""
    kind = _kind_with("source", file_format, call=call, or_as="dimension")
    assert kind.source is not None, kind
    return checked(kind.source, kind, {"format": file_format}, arguments, call=call)


def sink_of(file_format: str, arguments: Mapping[str, Any], *, call: str) -> SinkSpec:
    """Return a sink of any installed kind, by its format. Raises InvalidJobError with everything that is wrong."""
    kind = _kind_with("sink", file_format, call=call)
    assert kind.sink is not None, kind
    return checked(kind.sink, kind, {"format": file_format}, arguments, call=call)


def checked(
    model: type[AnyConnector],
    kind: ConnectorKind,
    given: Mapping[Any, Any],
    settings: Mapping[str, Any],
    *,
    call: str,
    takes: Any = None,
) -> AnyConnector:
    """Return the source or sink with these arguments, of which None stands for one that was left out.

    given: the arguments that every call has, by name, or by the path of the setting.
    settings: the arguments by keyword, which are keys of the TypedDict `takes` if that is given.
    call: for messages.

    Raises InvalidJobError with everything that is wrong, TypeError for an argument that `takes` does not have.
    """
    names = {**_OF_EVERY_SOURCE, **kind.source_arguments} if issubclass(model, SourceSpec) else {}
    paths = {name: path for path, name in names.items()}
    arguments = {**given, **given_arguments(settings, takes, call)}
    values = nested({_path(argument, paths): value for argument, value in arguments.items()})
    section = checked_section(model, values, place=call, name=lambda path: argument_at(path, names))
    return with_paths(section, FilePath())


def given_arguments(arguments: Mapping[str, Any], takes: Any, call: str) -> Mapping[str, Any]:
    """Return the arguments that have a value. Raise TypeError for one that the TypedDict `takes`, if given, lacks."""
    unknown = None if takes is None else next((name for name in arguments if name not in takes.__annotations__), None)
    if unknown is not None:
        known = sorted(takes.__annotations__)
        hint = did_you_mean(unknown, known) or f" It takes: {', '.join(known)}."
        msg = f"{call}() got an unexpected keyword argument {unknown!r}.{hint}"
        raise TypeError(msg)  # as Python does where the signature lists the arguments
    return {name: value for name, value in arguments.items() if value is not None}


def nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return nested sections that hold each value at its path; None (an argument that was left out) is not included."""
    tree: dict[Any, Any] = {}
    for path, value in values.items():
        if value is None:
            continue
        into = tree
        for part in path[:-1]:
            into = into.setdefault(part, {})
        into[path[-1]] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return tree


def argument_at(path: Path, names: Mapping[Path, str]) -> str:
    """Return the argument for the setting at `path`, with what is below it: `schema_drift['new-column']`.

    names: {path of a setting: its argument}, where the argument is not the first key of the path with _ instead of -.
    """
    known = next((end for end in range(len(path), 0, -1) if path[:end] in names), 1)
    name = names.get(path[:known]) or str(path[0]).replace("-", "_")
    return name + "".join(f"[{part!r}]" for part in path[known:])


def _path(argument: str | Path, paths: Mapping[str, Path]) -> Path:
    return argument if isinstance(argument, tuple) else paths.get(argument, (argument.replace("_", "-"),))


def _kind_with(role: Role, file_format: str, *, call: str, or_as: Role | None = None) -> ConnectorKind:
    """Return the kind that has a format in this role, or in the other. Raises InvalidJobError if none has."""
    of_type(file_format, str, f"{call}: format", "text")
    kinds = {**kinds_with(role), **({} if or_as is None else kinds_with(or_as))}
    owners = {known: name for name, section in kinds.items() for known in formats_of(section)}
    if file_format in owners:
        return connector_kinds()[owners[file_format]]
    msg = (
        f"{call}: format cannot be {file_format}.{did_you_mean(file_format, owners)} "
        f"Known values: {', '.join(sorted(owners))}."
    )
    raise InvalidJobError(msg)
