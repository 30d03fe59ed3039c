"""The settings of a job as values that a whole job, or the job without its steps and outputs, is validated from."""

from collections.abc import Mapping, Sequence
from typing import Any

from mixedmode.config.arguments import of_type
from mixedmode.config.fields import key_of
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.errors import InvalidJobError

__all__ = ["fields_of", "in_places", "of_output", "settings_of"]


def settings_of(spec: JobSpec) -> JobSettings:
    """Return the settings of a job without its steps and sink.

    Settings that are valid in a whole job are valid alone.
    """
    settings = fields_of(spec)
    return JobSettings.model_validate({key: settings[key] for key in map(key_of, JobSettings.model_fields)})


def fields_of(settings: JobSettings) -> dict[str, Any]:
    """Return {key in YAML: value} of all settings."""
    return {key_of(name): getattr(settings, name) for name in type(settings).model_fields}


def of_output(sink: object, from_: str | None, key: str | Sequence[str] | None, *, call: str) -> SinkSpec:
    """Return a sink as that of an output.  from_: the step whose rows it gets; key: its key columns, if it has own.

    call: for the message. Raises InvalidJobError for something that is no sink.
    """
    if not isinstance(sink, SinkSpec):
        msg = f"{call}: this is no sink. Give one of `Sink`, such as Sink.parquet(path). found={type(sink).__name__}"
        raise InvalidJobError(msg)
    given = of_type(
        sink.key if key is None else key, (str, list, tuple), f"{call}: key", "a column, or a list of columns"
    )
    columns = (given,) if isinstance(given, str) else tuple(given)
    for column in columns:
        of_type(column, str, f"{call}: key", "a column, or a list of columns")
    return sink.model_copy(update={"from_": from_, "key": columns})


def in_places(outputs: Mapping[str, SinkSpec], sinks: Mapping[str, SinkSpec]) -> dict[str, SinkSpec]:
    """Return the outputs of a job, by name, with other sinks."""
    return {
        name: of_output(sink, outputs[name].from_, outputs[name].key, call="Job") if name in outputs else sink
        for name, sink in sinks.items()
    }
