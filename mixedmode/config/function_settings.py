"""The settings of a custom class with which a step calls it: where it is, its outputs, failures, broadcast inputs."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field
from pydantic.fields import FieldInfo
from typing_extensions import override

from mixedmode.config.broadcasts import BroadcastSpec
from mixedmode.config.connectors import AnySideOutput, AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import Arguments, Identifier, InOrder, Lines, Text
from mixedmode.config.names import repeated

__all__ = ["CustomClass", "FallibleClass", "FunctionSettings"]

_FIRST, _LAST = ("name", "from_", "key_by", "left", "right", "on"), "parallelism"


class CustomClass(InOrder):
    """The folder of a custom class, its arguments, and the columns of the rows that it returns.

    class_field: the field that names the class.
    """

    class_field: ClassVar[str]

    folder: Text | None = Field(
        default=None, description="the folder that the class is imported from; not given: the one of the job file"
    )
    args: Arguments = Field(default={}, description="arguments for the class, by name")
    output: Lines = Field(description="columns of the result as Spark DDL, such as customer string, orders long")

    @classmethod
    @override
    def fields_in_order(cls) -> dict[str, FieldInfo]:
        """Return the name, the inputs and the class first, the parallelism last."""
        first = [name for name in (*_FIRST, cls.class_field) if name in cls.model_fields]
        middle = [name for name in cls.model_fields if name not in (*first, _LAST)]
        last = [name for name in cls.model_fields if name == _LAST]
        return {name: cls.model_fields[name] for name in (*first, *middle, *last)}


class FallibleClass(CustomClass):
    """The settings of a class that may fail on some records."""

    on_error: Literal["fail", "skip", "dead-letter"] = Field(
        default="fail",
        description="when the function raises; fail: the job stops; skip: the record is counted and left out; "
        "dead-letter: it goes to an output of its own",
    )
    dead_letter: AnySink | None = Field(
        default=None, description="where records go on which the function raised; needs on-error: dead-letter"
    )

    def _failure_findings(self) -> Iterator[tuple[Path, str]]:
        """Yield the mistakes in `on-error` and `dead-letter` taken together."""
        if self.on_error == "dead-letter" and self.dead_letter is None:
            text = " is missing: with on-error: dead-letter, failed records need a place. Add format and path."
            yield ("dead-letter",), text
        if self.on_error != "dead-letter" and self.dead_letter is not None:
            text = f" has no effect unless on-error is dead-letter. Remove one of the two. on-error={self.on_error}"
            yield ("dead-letter",), text


class FunctionSettings(FallibleClass):
    """The settings of a function with state and timers."""

    event_time: Text | None = Field(
        default=None, description="the column of `output` with the event time of its rows, for windows in later steps"
    )
    outputs: Mapping[Identifier, AnySideOutput] = Field(
        default={}, description="where the rows of each side output go, by tag"
    )
    broadcast: Mapping[Identifier, BroadcastSpec] = Field(
        default={},
        description="inputs whose rows every subtask has, by the name that the function asks for. Records then wait "
        "until the watermark has passed them",
    )

    def _function_findings(self) -> Iterator[tuple[Path, str]]:
        for tag, owner in repeated(self.outputs, {}):
            yield ("outputs", tag), f": {owner} has this name already (case does not count). Choose another."
        for name, owner in repeated(self.broadcast, {}):
            yield ("broadcast", name), f": {owner} has this name already (case does not count). Choose another."
        yield from self._failure_findings()
