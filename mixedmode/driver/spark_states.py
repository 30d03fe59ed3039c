"""The state of a query of Spark, read with Spark's own data sources `state-metadata` and `statestore`."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import NullType, StructField, StructType

from mixedmode.errors import InvalidJobError
from mixedmode.spark.frames import arrow_fields
from mixedmode.spark_state.matching import SparkOperator, SparkTable
from mixedmode.spark_state.progress import SparkProgress

__all__ = ["operators_of", "state_rows"]

_OLD_FORMAT = "streaming.aggregation.stateFormatVersion"
_AGGREGATE, _PROCESSOR, _VALUE = "stateStoreSave", "transformWithState", "value"
#: operators without tables of their own; the state of another one is not read
_READ = frozenset({_AGGREGATE, "sessionWindowStateStoreSaveExec", "dedupe", "dedupeWithinWatermark"})
_KINDS = {"ValueState": "value", "ListState": "list", "MapState": "map", "TimerState": "timers"}


def operators_of(session: SparkSession, folder: str, progress: SparkProgress) -> list[SparkOperator]:
    """Return the operators with state of a query. Raise InvalidJobError if Spark does not know them."""
    known = session.read.format("state-metadata").load(folder)
    found = known.select("operatorId", "operatorName", "operatorProperties").distinct().collect()
    if not found and progress.has_state:
        msg = (
            "the state of this query has no description of its operators, which Spark 4.0 and later write when a query "
            "begins. Nothing was imported. Run the job from the beginning. "
            f"folder={folder}"
        )
        raise InvalidJobError(msg)
    return [_operator(session, folder, progress, *row) for row in sorted(found)]


def state_rows(
    session: SparkSession, folder: str, progress: SparkProgress, operator: SparkOperator, table: SparkTable
) -> DataFrame:
    """Return a table of the state of an operator after the last committed batch: columns of the key, then the value."""
    frame = _frame(session, folder, progress, operator.number, table.options)
    columns = _flat(frame, "key", len(table.keys))
    if _VALUE in frame.columns and not table.kind:
        columns += _flat(frame, _VALUE, len(table.values))
    else:
        columns += [F.col(one.name) for one in table.values]
    return frame.select(*(columns or [F.lit(None).cast("string").alias("nothing")]))


def _flat(frame: DataFrame, name: str, count: int) -> list[Column]:
    """Return the last fields of a struct as columns. Names may come twice, so they are taken by their places."""
    kind = _struct(frame, name)
    numbered = StructType([StructField(f"{name}{at}", one.dataType) for at, one in enumerate(kind)])
    whole = F.col(name).cast(numbered)
    return [whole.getField(f"{name}{at}").alias(f"{name}{at}") for at in range(len(kind) - count, len(kind))]


def _operator(
    session: SparkSession, folder: str, progress: SparkProgress, number: int, name: str, properties: str | None
) -> SparkOperator:
    if not name.startswith(_PROCESSOR) and name not in _READ:
        return SparkOperator(number, name, ())
    known = json.loads(properties or "{}")
    if name.startswith(_PROCESSOR):
        tables = (_variable(session, folder, progress, number, one) for one in known["stateVariables"])
        return SparkOperator(number, name, tuple(tables), known["timeMode"])
    frame = _frame(session, folder, progress, number, {})
    keys, values = _struct(frame, "key"), _struct(frame, _VALUE)
    own = [field for field in values if not isinstance(field.dataType, NullType)]
    if name == _AGGREGATE and progress.setting(_OLD_FORMAT, "2") == "1":  # the key is repeated in the value
        own = own[len(keys) :]
    return SparkOperator(number, name, (SparkTable(_fields(keys), _fields(StructType(own))),))


def _variable(
    session: SparkSession, folder: str, progress: SparkProgress, number: int, known: Mapping[str, Any]
) -> SparkTable:
    kind, name = _KINDS[known["stateVariableType"]], str(known["stateName"])
    if kind == "timers":
        options = {"readRegisteredTimers": "true"}
    else:
        options = {"stateVarName": name, "flattenCollectionTypes": str(kind == "map").lower()}
    frame = _frame(session, folder, progress, number, options)
    values = StructType([one for one in frame.schema if one.name not in ("key", "partition_id")])
    keys = _fields(_struct(frame, "key"))
    return SparkTable(keys, _fields(values), options, name, kind, has_ttl=bool(known["ttlEnabled"]))


def _fields(kind: StructType) -> tuple[pa.Field, ...]:
    return tuple(arrow_fields(kind))


def _frame(
    session: SparkSession, folder: str, progress: SparkProgress, number: int, options: Mapping[str, str]
) -> DataFrame:
    reader = session.read.format("statestore").option("batchId", progress.batch)
    return reader.option("operatorId", number).options(**options).load(folder)


def _struct(frame: DataFrame, side: str) -> StructType:
    kind = frame.schema[side].dataType
    assert isinstance(kind, StructType), kind
    return kind
