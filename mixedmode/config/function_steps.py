"""Steps with a custom function over the rows of two inputs by key.

Their settings of the function are those of a `process` step (config/steps.py), in the section with the two inputs.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field

from mixedmode.config.connectors import AnySideOutput, AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import Arguments, ClassReference, Count, Lines, Section, TableName, TagName, Text
from mixedmode.config.names import repeated
from mixedmode.config.two_inputs import TwoInputs, TwoInputStep
from mixedmode.config.windows import WINDOW_COLUMNS, FixedWindowSpec

__all__ = ["CoGroupSpec", "CoGroupStep", "CoProcessSpec", "CoProcessStep", "FunctionOfTwo", "failure_findings"]


def failure_findings(on_error: str, dead_letter: Section | None) -> Iterator[tuple[Path, str]]:
    """Yield the mistakes in `on-error` and `dead-letter` taken together."""
    if on_error == "dead-letter" and dead_letter is None:
        text = " is missing: with on-error: dead-letter, failed records need a place. Add format and path."
        yield ("dead-letter",), text
    if on_error != "dead-letter" and dead_letter is not None:
        text = f" has no effect unless on-error is dead-letter. Remove one of the two. on-error={on_error}"
        yield ("dead-letter",), text


class FunctionOfTwo(TwoInputs):
    """Two inputs, and the function that is called with their rows."""

    class_: ClassReference = Field(description="the class, such as package.module:Class")
    folder: Text | None = Field(
        default=None, description="the folder that the class is imported from; not given: the one of the job file"
    )
    args: Arguments = Field(default={}, description="arguments for the class, by name")
    output: Lines = Field(description="columns of the result as Spark DDL, such as order string, paid timestamp")


class CoProcessSpec(FunctionOfTwo):
    """Two inputs, and the function that is called with each of their records, with state and timers per key."""

    event_time: Text | None = Field(
        default=None, description="the column of `output` with the event time of its rows, for windows in later steps"
    )
    outputs: Mapping[TagName, AnySideOutput] = Field(
        default={}, description="where the rows of each side output go, by tag"
    )
    on_error: Literal["fail", "skip", "dead-letter"] = Field(
        default="fail",
        description="when the function raises; fail: the job stops; skip: the record is counted and left out; "
        "dead-letter: it goes to an output of its own",
    )
    dead_letter: AnySink | None = Field(
        default=None, description="where records go on which the function raised; needs on-error: dead-letter"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._input_findings()
        for tag, owner in repeated(self.outputs, {}):
            yield ("outputs", tag), f": {owner} has this name already (case does not count). Choose another."
        yield from failure_findings(self.on_error, self.dead_letter)


class CoGroupSpec(FunctionOfTwo):
    """Two inputs, and the function that is called with their rows of a key and window, once the window is final."""

    window: FixedWindowSpec = Field(description="tumbling, sliding or cumulating windows of event time")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._input_findings()
        for name, _ in self.equal_columns:
            if name.lower() in WINDOW_COLUMNS:
                text = f": the step emits a column of this name. Rename yours in a sql step before. found={name}"
                yield ("on",), text


class CoProcessStep(TwoInputStep):
    """A step with a custom function over the records of both inputs of each key, with state and timers."""

    section: ClassVar[str] = "co-process"

    name: TableName | None = Field(default=None, description="a name for the step")
    co_process: CoProcessSpec = Field(description="the two inputs, and the class that is called with their records")
    parallelism: Count | None = Field(
        default=None, description="subtasks of this step; not given: as many as the job has"
    )


class CoGroupStep(TwoInputStep):
    """A step with a custom function over the rows of both inputs of each key and window."""

    section: ClassVar[str] = "co-group"

    name: TableName | None = Field(default=None, description="a name for the step")
    co_group: CoGroupSpec = Field(description="the two inputs, the windows, and the class that is called")
    parallelism: Count | None = Field(
        default=None, description="subtasks of this step; not given: as many as the job has"
    )
