"""A keyed stage as the plan of such a job holds it, and its input as Spark hands it over, both without Spark."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bench.function import CountAndSum
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import (
    AggregateOperator,
    Aggregator,
    aggregate_function,
    aggregator_for,
    argument_name,
)
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.process import PROCESS_FUNCTION, ProcessOperator
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage, key_column
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.timing import Timing
from mixedmode.tasks.watching import Watch, Watched
from mixedmode.time import WatermarkState

KEY, VALUE = "k", "v"
MAX_PARALLELISM = 128  # the default of pipeline.max-parallelism
KEY_SCHEMA = KeySchema((pa.field(KEY, pa.int64()),))
SOURCE = "events"


def aggregator() -> Aggregator:
    """count(*) and sum(double)."""
    count = aggregate_function("count", None, None, has_event_time=False, where="n")
    total = aggregate_function("sum", 0, pa.float64(), has_event_time=False, where="total")
    return aggregator_for({"n": count, "total": total}, arguments=1, counts_rows=False)


def count_and_sum(key_type: str = "int64") -> KeyedStage:
    """count(*) and sum(double) per key of an Arrow type."""
    key_schema = KeySchema((pa.field(KEY, pa.type_for_alias(key_type)),))
    return KeyedStage(
        operator_id="aggregate-1",
        reads=Reads((SOURCE,), sources=(SOURCE,), upstream=frozenset({SOURCE})),
        key_fields=key_schema.fields,
        arguments=(VALUE,),
        argument_types=(pa.float64(),),
        event_time=None,
        is_changelog=False,
        operator=AggregateOperator(aggregator(), key_schema, is_changelog=False, emits_retractions=False),
        identity={},
    )


def counting(function: type[CountAndSum]) -> ProcessOperator:
    """The operator of the process step; its batches need no event time."""
    value = pa.field(VALUE, pa.float64())
    fields = (pa.field("n", pa.int64()), pa.field("total", pa.float64()))
    return ProcessOperator(
        "process-1",
        GivenClass(PROCESS_FUNCTION, function),
        KEY_SCHEMA,
        (*KEY_SCHEMA.fields, value),
        (*KEY_SCHEMA.fields, *fields),
        has_event_time=False,
    )


def map_side(stage: KeyedStage, *, parallelism: int, slice_bytes: int) -> MapSide:
    """The map side of a stage over one source, in a backlog."""
    timing = Timing(
        before=WatermarkState.initial([], 0),
        strategies={},
        clock_ms=0,
        clock_before_ms=None,
        backlog=frozenset({SOURCE}),
        backlog_before=None,
        is_backlog=True,
        was_backlog=None,
        fires_all=False,
    )
    watch = Watch(Watched.ROWS, (SOURCE,), timing)
    return MapSide(stage, parallelism, MAX_PARALLELISM, slice_bytes, timing, watch)


def input_batches(*, rows: int, rows_per_batch: int, keys: int) -> list[pa.RecordBatch]:
    """Input of the stage's map side: keys drawn evenly from `keys`, and random values."""
    rng = np.random.default_rng(7)
    columns = {key_column(0): pa.array(rng.integers(0, keys, rows)), argument_name(0): pa.array(rng.random(rows))}
    batches: list[pa.RecordBatch] = pa.table(columns).to_batches(max_chunksize=rows_per_batch)
    return batches


def blocks_of(kind: BlockKind, shipped: Sequence[pa.RecordBatch]) -> list[bytes]:
    """The blocks of one kind among those that a map side has shipped."""
    return [batch["block"][row].as_py() for batch in shipped for row in _rows_of(kind, batch)]


def _rows_of(kind: BlockKind, batch: pa.RecordBatch) -> list[int]:
    return [row for row, found in enumerate(batch["kind"].to_pylist()) if found == kind]
