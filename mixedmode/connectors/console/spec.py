"""The settings of the console as a sink."""

from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from mixedmode.config.sinks import SinkSpec
from mixedmode.config.used_places import UsedPlace


class ConsoleSinkSpec(SinkSpec):
    """A sink that writes to the terminal."""

    format: Literal["console"] = Field(description="console")

    @property
    @override
    def place(self) -> str:
        return "console standard output"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        """Return no place: several outputs may share a screen."""
        return ()

    @override
    def renamed(self, suffix: str) -> Self:
        return self
