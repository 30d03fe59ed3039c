"""Custom sources and sinks, in Python."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from mixedmode.connectors.calls import FileName, PlainValue, SourceArguments, checked
from mixedmode.connectors.custom.classes import CustomSink, CustomSource
from mixedmode.connectors.custom.kind import KIND
from mixedmode.connectors.custom.spec import CustomSinkSpec, CustomSourceSpec
from mixedmode.operators.classes import class_reference


class CustomArguments(TypedDict, total=False):
    """Arguments for a custom class. docs/custom-connectors.md is the guide.

    args: arguments for the class, by name; a text may contain `${env:NAME}`.
    folder: the folder that the module is imported from.
        By default, a class has the folder that it came from, and a name has the current folder.
    """

    args: Mapping[str, PlainValue]
    folder: FileName


class CustomSourceArguments(SourceArguments, CustomArguments, total=False):
    """Arguments for a custom source: those of SourceArguments and of CustomArguments."""


class CustomSources:
    """The methods of `Source` for custom classes."""

    @staticmethod
    def custom(source: str | type[CustomSource], **settings: Unpack[CustomSourceArguments]) -> CustomSourceSpec:
        """Return a source that reads through a CustomSource: the class, or its name as `package.module:Class`."""
        call = "Source.custom"
        given = _named(source, call=call)
        return checked(CustomSourceSpec, KIND, given, settings, call=call, takes=CustomSourceArguments)


class CustomSinks:
    """The methods of `Sink` for custom classes."""

    @staticmethod
    def custom(sink: str | type[CustomSink], **settings: Unpack[CustomArguments]) -> CustomSinkSpec:
        """Return a sink that writes through a CustomSink: the class, or its name as `package.module:Class`."""
        call = "Sink.custom"
        return checked(CustomSinkSpec, KIND, _named(sink, call=call), settings, call=call, takes=CustomArguments)


def _named(given: str | type, *, call: str) -> dict[str, Any]:
    """Return the settings that name the class. The folder that it came from is replaced by the argument `folder`."""
    reference, home = class_reference(given, place=call)
    return {"format": "custom", "class": reference, "folder": home}
