"""Custom sources and sinks; mixedmode/connectors/custom/classes.py describes the methods of such a class."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from typing_extensions import override

from mixedmode.config.fields import Arguments, ClassReference, Text
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec

_CLASS = "the class, such as package.module:Class"
_FOLDER = "the folder that the class is imported from; not given: the one of the job file"
_ARGS = "arguments for the class, by name; a text may hold ${env:NAME}"


class CustomSourceSpec(SourceSpec):
    """A source that reads through a custom class."""

    format: Literal["custom"] = Field(description="custom")
    class_: ClassReference = Field(description=_CLASS)
    folder: Text = Field(default=".", description=_FOLDER)
    args: Arguments = Field(default={}, description=_ARGS)

    @property
    @override
    def place(self) -> str:
        return _place(self.class_, self.args)


class CustomSinkSpec(SinkSpec):
    """A sink that writes through a custom class."""

    format: Literal["custom"] = Field(description="custom")
    class_: ClassReference = Field(description=_CLASS)
    folder_: Text = Field(default=".", description=_FOLDER)
    args: Arguments = Field(default={}, description=_ARGS)

    @property
    @override
    def place(self) -> str:
        """Return class and arguments: two outputs may have one class with different arguments."""
        return _place(self.class_, self.args)


def _place(class_name: str, args: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in args.items())
    return f"custom {class_name}({shown})"
