"""Steps with a custom function over the rows of two inputs by key.

The settings of the function are in the section with the two inputs.
"""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.fields import ClassReference
from mixedmode.config.function_settings import FallibleClass, FunctionSettings
from mixedmode.config.two_inputs import TwoInputs, TwoInputStep
from mixedmode.config.windows import WINDOW_COLUMNS, EventWindowSpec

__all__ = ["CoGroupSpec", "CoGroupStep", "CoProcessSpec", "CoProcessStep"]


class CoProcessSpec(FunctionSettings, TwoInputs):
    """Two inputs, and the function that is called with each of their records, with state and timers per key."""

    class_field: ClassVar[str] = "class_"

    class_: ClassReference = Field(description="the class, such as package.module:Class")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._input_findings()
        yield from self._function_findings()
        if self.late_sinks and not self.broadcast:
            yield ("late",), ": no record is late for a function without broadcast. Remove it."


class CoGroupSpec(FallibleClass, TwoInputs):
    """Two inputs, and the function that is called with their rows of a key and window, once the window is final."""

    class_field: ClassVar[str] = "class_"

    class_: ClassReference = Field(description="the class, such as package.module:Class")
    window: EventWindowSpec = Field(description="tumbling, sliding, session or cumulating windows of event time")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._input_findings()
        yield from self._failure_findings()
        for name, _ in self.equal_columns:
            if name.lower() in WINDOW_COLUMNS:
                text = f": the step emits a column of this name. Rename yours in a sql step before. found={name}"
                yield ("on",), text


class CoProcessStep(TwoInputStep):
    """A step with a custom function over the records of both inputs of each key, with state and timers."""

    section: ClassVar[str] = "co-process"

    co_process: CoProcessSpec = Field(description="the two inputs, and the class that is called with their records")


class CoGroupStep(TwoInputStep):
    """A step with a custom function over the rows of both inputs of each key and window."""

    section: ClassVar[str] = "co-group"

    co_group: CoGroupSpec = Field(description="the two inputs, the windows, and the class that is called")
