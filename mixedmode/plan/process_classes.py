"""The class of a process step: a process function, or a class that is written for Spark's transformWithState."""

from collections.abc import Sequence

import pyarrow as pa

from mixedmode.config import ProcessStep
from mixedmode.operators.process import PROCESS_FUNCTION
from mixedmode.operators.spark_processor import FunctionSource, ProcessorStep

__all__ = ["process_reference"]


def process_reference(
    step: ProcessStep,
    *,
    keys: Sequence[pa.Field] = (),
    records: Sequence[pa.Field] = (),
    output: Sequence[pa.Field] = (),
    time_zone: str = "UTC",
) -> FunctionSource:
    """Return the reference to the class of a process step.

    keys, records, output, time_zone: see ProcessorStep; not needed to inspect the class.
    """
    named = PROCESS_FUNCTION.named(step.process, step.args, step.folder)
    about = ProcessorStep(step.time_mode, step.rows_as, tuple(keys), tuple(records), tuple(output), time_zone)
    return FunctionSource(named, about)
