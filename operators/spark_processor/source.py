"""The class of a process step: a process function as it is, or a StatefulProcessor of Spark in an adapter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.operators.classes import ClassSource
from mixedmode.operators.process.function import AnyFunction, SparkProcessor
from mixedmode.operators.spark_processor.settings import ProcessorStep

__all__ = ["FunctionSource"]


@dataclass(frozen=True, slots=True)
class FunctionSource(ClassSource[AnyFunction]):
    """The class of a process step.  named: the class that the job names.  step: what the step says about it."""

    named: ClassSource[Any]
    step: ProcessorStep

    @property
    @override
    def label(self) -> str:
        return self.named.label

    @override
    def load(self) -> type[AnyFunction]:
        found: type[AnyFunction] = self.named.load()
        if issubclass(found, SparkProcessor):
            from mixedmode.operators.spark_processor.adapter import adapter_class  # noqa: PLC0415 - imports pyspark

            return adapter_class(found, self.step.time_mode, self.label)
        if self.step.settings:
            msg = (
                "only a class of Spark, a StatefulProcessor, has these settings. Remove them, or name such a class. "
                f"settings={', '.join(self.step.settings)}, process={self.label}"
            )
            raise InvalidJobError(msg)
        return found

    @override
    def create(self) -> AnyFunction:
        found: Any = self.load()
        given: Any = self.named.create()
        if isinstance(given, SparkProcessor):
            given = found(given, self.step, self.label)
        return given  # type: ignore[no-any-return]

    def check_step(self, *, has_event_time: bool, unused: Sequence[str] = ()) -> None:
        """Raise InvalidJobError if the class cannot run in the step. Called when the step is planned.

        unused: the settings of the step that a class of Spark cannot use.
        """
        if not issubclass(self.named.load(), SparkProcessor):
            return
        if unused:
            msg = (
                "a class of Spark has no side outputs and no broadcast inputs, so nothing would use these settings. "
                f"Remove them. settings={', '.join(unused)}"
            )
            raise InvalidJobError(msg)
        if self.step.time_mode == "EventTime" and not has_event_time:
            msg = (
                "timers of event time fire by the watermark, and the rows of this step have no event time. Set "
                "`event-time` and `watermark` of the source, as withWatermark does in Spark, or another time-mode. "
                "time-mode=EventTime"
            )
            raise InvalidJobError(msg)
        nested = next((field for field in self.step.records if pa.types.is_nested(field.type)), None)
        if self.step.rows_as == "pandas" and nested is not None:
            msg = (
                "a column of arrays, maps or structs is not given to a class of frames here, as it would have another "
                "form than in Spark. Leave it out in a sql step before, make text of it with to_json, or write the "
                f"class for rows. column={nested.name}, type={nested.type}"
            )
            raise InvalidJobError(msg)
