"""Classes that are written for Spark's transformWithState, as process functions.

A class of Spark knows micro-batches, and a process function knows records. Here each record is a micro-batch of the
class: `handleInputRows` is called once for each record, with one row. Spark may divide its input in this way, too, and
these calls are the same in all modes. Timers fire after the records of their key in an epoch, as in other functions.

Only settings.py and source.py are imported for other functions. The rest imports pyspark, as the class itself does.
"""

from mixedmode.operators.spark_processor.settings import ProcessorStep, RowsAs, TimeMode
from mixedmode.operators.spark_processor.source import FunctionSource

__all__ = ["FunctionSource", "ProcessorStep", "RowsAs", "TimeMode"]
