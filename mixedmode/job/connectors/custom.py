"""Custom sources and sinks, in Python."""

from collections.abc import Mapping
from typing import Any, Literal

from mixedmode.config.custom import CustomSideOutputSpec, CustomSinkSpec, CustomSourceSpec
from mixedmode.connectors import CustomSink, CustomSource
from mixedmode.job.arguments import Duration, FileName, PlainValue, nested
from mixedmode.job.connectors.checked import AnyConnector, checked
from mixedmode.job.keyed import class_reference


class CustomSources:
    """The methods of `Source` for custom classes."""

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
        """Return a source that reads through a CustomSource.

        source: the class, or its name as `package.module:Class`.
        args: arguments for the class, by name; a text may contain `${env:NAME}`.
        folder: the folder that the module is imported from.
            By default, a class has the folder that it came from, and a name has the current folder.

        See Source for the other arguments. docs/custom-connectors.md is the guide.
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
    """The methods of `Sink` for custom classes."""

    @staticmethod
    def custom(
        sink: str | type[CustomSink], *, args: Mapping[str, PlainValue] | None = None, folder: FileName | None = None
    ) -> CustomSinkSpec:
        """Return a sink that writes through a CustomSink: the class, or its name.

        See Source.custom for args and folder.
        """
        return _python(CustomSinkSpec, sink, folder, {("args",): args}, place="Sink.custom")


class PythonSideOutputs:
    """The methods of `SideOutput` for custom classes."""

    @staticmethod
    def custom(
        sink: str | type[CustomSink],
        *,
        schema: str,
        args: Mapping[str, PlainValue] | None = None,
        folder: FileName | None = None,
    ) -> CustomSideOutputSpec:
        """Return a sink that writes through a CustomSink: the class, or its name.

        See Source.custom for args and folder.
        """
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
