"""A keyed stage as the plan of bench/ours.py holds it, and its input as Spark hands it over, both without Spark."""

import numpy as np
import pyarrow as pa

from bench.workload import KEY, VALUE
from mixedmode.job.plan import KeyedStage
from mixedmode.keys import KeySchema
from mixedmode.runtime.exchange import KEY_PREFIX
from operators.aggregate import AggregateOperator, aggregate_function, aggregator_for, argument_name

MAX_PARALLELISM = 128  # the default of pipeline.max-parallelism


def count_and_sum() -> KeyedStage:
    """count(*) and sum(double) per int64 key."""
    count = aggregate_function("count", None, None, has_event_time=False, where="n")
    total = aggregate_function("sum", 0, pa.float64(), has_event_time=False, where="total")
    aggregator = aggregator_for({"n": count, "total": total}, arguments=1, counts_rows=False)
    schema = KeySchema((pa.field(KEY, pa.int64()),))
    return KeyedStage(
        operator_id="aggregate-1",
        sql=(),
        key_schema=schema,
        arguments=(VALUE,),
        argument_types=(pa.float64(),),
        event_time=None,
        is_change_log=False,
        operator=AggregateOperator(aggregator, schema, is_change_log=False, needs_previous=False),
        result_fields=(pa.field("n", pa.int64()), pa.field("total", pa.float64())),
        description="count and sum",
    )


def input_batches(*, rows: int, rows_per_batch: int, keys: int) -> list[pa.RecordBatch]:
    """Input of the stage's map side: keys drawn evenly from `keys`, and random values."""
    rng = np.random.default_rng(7)
    columns = {f"{KEY_PREFIX}0": pa.array(rng.integers(0, keys, rows)), argument_name(0): pa.array(rng.random(rows))}
    batches: list[pa.RecordBatch] = pa.table(columns).to_batches(max_chunksize=rows_per_batch)
    return batches
