"""Sources and sinks that are classes of the user's own; see mixedmode/connectors.py for what such a class has."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from mixedmode.config.fields import Arguments, ClassReference, Text
from mixedmode.config.sinks import SinkSpec, WithSchema
from mixedmode.config.sources import SourceSpec

_CLASS = "the class, such as package.module:Class"
_FOLDER = "the folder that the class is imported from; not given: the one of the job file"
_ARGS = "arguments for the class, by name; a text may hold ${env:NAME}"


class CustomSourceSpec(SourceSpec):
    """What a class of the user's own reads."""

    format: Literal["custom"] = Field(description="custom")
    class_: ClassReference = Field(description=_CLASS)
    folder: Text = Field(default=".", description=_FOLDER)
    args: Arguments = Field(default={}, description=_ARGS)

    @property
    def place(self) -> str:
        """See SourceSpec."""
        return _place(self.class_, self.args)


class CustomSinkSpec(SinkSpec):
    """Where a class of the user's own writes."""

    format: Literal["custom"] = Field(description="custom")
    class_: ClassReference = Field(description=_CLASS)
    folder_: Text = Field(default=".", description=_FOLDER)
    args: Arguments = Field(default={}, description=_ARGS)

    @property
    def place(self) -> str:
        """See SinkSpec. Two outputs may be of one class, with other arguments."""
        return _place(self.class_, self.args)


class CustomSideOutputSpec(WithSchema, CustomSinkSpec):
    """Where a class of the user's own writes the rows of one tag."""


def _place(class_name: str, args: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in args.items())
    return f"custom {class_name}({shown})"
