"""Sources and sinks of the user's own, in Python."""

from collections.abc import Mapping
from typing import Any, Literal

from mixedmode.config.custom import CustomSideOutputSpec, CustomSinkSpec, CustomSourceSpec
from mixedmode.connectors import CustomSink, CustomSource
from mixedmode.job.arguments import Duration, FileName, PlainValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked
from mixedmode.job.keyed import class_reference


class CustomSources:
    """Calls of `Source` for classes."""

    @staticmethod
    def custom(  # noqa: PLR0913  # one argument per setting, by keyword
        source: str | type[CustomSource],
        *,
        args: Mapping[str, PlainValue] | None = None,
        folder: FileName | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
    ) -> CustomSourceSpec:
        """What a CustomSource reads: the class, or its name as `package.module:Class`.

        `folder` is where its module is imported from: of a class the folder that it came from, else the current one.
        """
        values = {
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
        }
        return _python(CustomSourceSpec, source, folder, {("args",): args, **values}, place="Source.custom")


class CustomSinks:
    """Calls of `Sink` for classes."""

    @staticmethod
    def custom(
        sink: str | type[CustomSink], *, args: Mapping[str, PlainValue] | None = None, folder: FileName | None = None
    ) -> CustomSinkSpec:
        """Where a CustomSink writes: the class, or its name; see Source.custom."""
        return _python(CustomSinkSpec, sink, folder, {("args",): args}, place="Sink.custom")


class PythonSideOutputs:
    """Calls of `SideOutput` for classes."""

    @staticmethod
    def custom(
        sink: str | type[CustomSink],
        *,
        schema: str,
        args: Mapping[str, PlainValue] | None = None,
        folder: FileName | None = None,
    ) -> CustomSideOutputSpec:
        """Where a CustomSink writes: the class, or its name; see Source.custom."""
        values: dict[tuple[str, ...], Any] = {("args",): args, ("schema",): schema}
        return _python(CustomSideOutputSpec, sink, folder, values, place="SideOutput.custom")


def _python(
    model: type[AnyConnector],
    given: str | type,
    folder: FileName | None,
    values: Mapping[tuple[str, ...], Any],
    *,
    place: str,
) -> AnyConnector:
    reference, home = class_reference(given, place=place)
    all_values = {("class",): reference, ("folder",): folder or home, **values}
    return checked(model, {"format": "custom", **nested(all_values)}, place=place)
