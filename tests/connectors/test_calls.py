"""The Python calls of each kind of connector have the settings of its sections as arguments, and no others."""

from collections.abc import Callable
from typing import Any

import pytest

from mixedmode import Sink, Source
from mixedmode.config.fields import Section, key_of
from mixedmode.config.registry import connector_kinds
from mixedmode.connectors.calls import SourceArguments
from mixedmode.connectors.custom.calls import CustomArguments, CustomSourceArguments
from mixedmode.connectors.files.calls import FileSinkArguments, LineFileArguments, ParquetSourceArguments
from mixedmode.connectors.history.calls import HistoryArguments
from mixedmode.connectors.kafka.calls import KafkaSinkArguments, KafkaSourceArguments
from mixedmode.connectors.lakehouse.calls import DeltaSourceArguments, IcebergSourceArguments, TableSinkArguments
from mixedmode.connectors.postgres.calls import PostgresSinkArguments, PostgresTableArguments
from mixedmode.connectors.sqlite.calls import SqliteSinkArguments

#: {kind: (TypedDicts of its calls that together have all of its settings, settings that are arguments by position)}
SOURCES: dict[str, tuple[tuple[Any, ...], set[str]]] = {
    "files": ((ParquetSourceArguments, LineFileArguments), {"path"}),
    "kafka": ((KafkaSourceArguments,), {"topics"}),
    "lakehouse": ((DeltaSourceArguments, IcebergSourceArguments), {"path"}),
    "custom": ((CustomSourceArguments,), {"class"}),
    "postgres": ((PostgresTableArguments,), {"url", "table"}),
    "history-and-live": ((HistoryArguments,), {"history", "live"}),
}
SINKS: dict[str, tuple[tuple[Any, ...], set[str]]] = {
    "files": ((FileSinkArguments,), {"path"}),
    "console": ((), set()),
    "kafka": ((KafkaSinkArguments,), {"topic"}),
    "postgres": ((PostgresSinkArguments,), {"url", "table"}),
    "sqlite": ((SqliteSinkArguments,), {"path", "table"}),
    "lakehouse": ((TableSinkArguments,), {"path"}),
    "custom": ((CustomArguments,), {"class"}),
}


def settings_of(section: type[Section] | None) -> set[str]:
    assert section is not None
    return {key_of(name) for name in section.model_fields} - {"format"}


def arguments_of(dicts: tuple[Any, ...]) -> set[str]:
    return {name for one in dicts for name in one.__annotations__}


@pytest.mark.parametrize("name", SOURCES)
def test_every_setting_of_a_source_is_an_argument(name: str) -> None:
    kind, (dicts, by_position) = connector_kinds()[name], SOURCES[name]
    own = {"event_time", "bounded", "computed_columns"}  # the others of every source are below `watermark`
    of_watermark = arguments_of((SourceArguments,)) - own
    arguments = arguments_of(dicts) - of_watermark
    first = {argument: str(path[0]) for path, argument in kind.source_arguments.items()}
    settings = {first.get(argument, argument.replace("_", "-")) for argument in arguments}
    assert kind.source is not None
    shared = {"watermark"} | ({key_of(name) for name in own} if kind.source.is_dimension_only else set())
    assert settings | by_position | shared == settings_of(kind.source)


@pytest.mark.parametrize("name", SINKS)
def test_every_setting_of_a_sink_is_an_argument(name: str) -> None:
    dicts, by_position = SINKS[name]
    settings = {argument.replace("_", "-") for argument in arguments_of(dicts)}
    of_a_sink = settings_of(connector_kinds()[name].sink) - {"from", "key"}  # Job.output and Job.write say these
    assert settings | by_position == of_a_sink


def test_every_kind_that_is_ours_is_compared() -> None:
    kinds = connector_kinds().values()
    assert SOURCES.keys() == {kind.name for kind in kinds if kind.source is not None}
    assert SINKS.keys() == {kind.name for kind in kinds if kind.sink is not None}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda **wrong: Source.parquet("p", **wrong), "Source.parquet"),
        (lambda **wrong: Source.kafka("t", bootstrap_servers="h:1", value="text", **wrong), "Source.kafka"),
        (lambda **wrong: Sink.delta("p", **wrong), "Sink.delta"),
    ],
)
def test_an_unknown_argument_is_a_mistake_in_the_program(call: Callable[..., object], name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'pathh'\. It takes: \w+, "):
        call(pathh=1)


@pytest.mark.parametrize(
    "section",
    [
        Source.parquet("p"),
        Source.csv("p", schema="k string"),
        Source.kafka("t", bootstrap_servers="h:1", value="text"),
        Source.delta("p"),
        Sink.parquet("p"),
        Sink.kafka("t", bootstrap_servers="h:1"),
        Sink.sqlite("p", "t"),
    ],
    ids=lambda section: f"{type(section).__name__} {section.format}",
)
def test_a_setting_without_an_argument_stays_unset(section: Section) -> None:
    fields = type(section).model_fields
    assert [name for name in section.model_fields_set if getattr(section, name) == fields[name].default] == []
