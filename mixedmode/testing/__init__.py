"""Test a job's steps without Spark, in milliseconds, with control of watermark, clock, flip, snapshot and restore.

`run_graph` runs a whole job.

    from mixedmode.process import KeyedProcessFunction, ValueState
    from mixedmode.testing import FunctionHarness

    class Totals(KeyedProcessFunction):
        total = ValueState(int, default=0)

        def process_element(self, record, context):
            self.total.value += record["v"]
            yield {"k": record["k"], "total": self.total.value}

    harness = FunctionHarness(
        Totals, key_by="k", schema="k string, v bigint", output="k string, total bigint", backlog=True
    )
    harness.feed([{"k": "a", "v": 1}, {"k": "a", "v": 2}])      # only collected
    harness.flip()                                              # runs the backlog as one epoch and keeps its state
    assert harness.take() == [{"k": "a", "total": 1}, {"k": "a", "total": 3}]
    restored = harness.restore(harness.snapshot(), parallelism=2)
    restored.feed([{"k": "a", "v": 4}])                         # a live epoch
    assert restored.take() == [{"k": "a", "total": 7}]

The harness runs the engine's own operators and works with any test framework. docs/testing.md is the guide.
"""

from mixedmode.testing.aggregates import AggregateHarness, OperatorHarness
from mixedmode.testing.functions import FunctionHarness
from mixedmode.testing.harness import Harness
from mixedmode.testing.jobs import JobOutputs, run_graph
from mixedmode.testing.maps import MapHarness
from mixedmode.testing.ranking import ApplyChangesHarness, DeduplicateHarness, OverHarness, TopHarness
from mixedmode.testing.settings import HarnessArguments

__all__ = [
    "AggregateHarness",
    "ApplyChangesHarness",
    "DeduplicateHarness",
    "FunctionHarness",
    "Harness",
    "HarnessArguments",
    "JobOutputs",
    "MapHarness",
    "OperatorHarness",
    "OverHarness",
    "TopHarness",
    "run_graph",
]
