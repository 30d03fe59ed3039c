"""Decides if map tasks can read the columns of the first keyed stage from the files themselves, without Spark SQL."""

from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from mixedmode.config import SourceSpec
from mixedmode.config.calls import column_in
from mixedmode.config.drift import Drift
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import TIME_COLUMN
from mixedmode.plan.stages import ALL_ROWS, KeyedStage, ReadColumn
from mixedmode.tasks.exchange import KEY_PREFIX

__all__ = ["columns_to_read"]


def columns_to_read(source: SourceSpec, schema: StructType, stage: KeyedStage) -> tuple[ReadColumn, ...]:
    """Return the columns of the first keyed stage, () unless map tasks can read them from local Parquet files.

    source, schema: the only source of the job, and its columns.
    """
    if not isinstance(source, FileSourceSpec) or not _is_plain_parquet(source) or stage.reads.sql or stage.late_fields:
        return ()
    types = {field.name.lower(): field.dataType for field in schema}
    columns = [column_in(text) for text in stage.arguments]
    named = all(column is not None and column.lower() in types for column in columns)
    named = named and not any(map(pa.types.is_nested, stage.argument_types))
    has_instants = stage.event_time is None or isinstance(types[stage.event_time.lower()], TimestampType)
    if not (named and has_instants) or ALL_ROWS in stage.key_fields:
        return ()
    reads = [ReadColumn(f.name, f.type, f"{KEY_PREFIX}{i}") for i, f in enumerate(stage.key_fields)]
    arguments = zip(columns, stage.argument_types, strict=True)
    reads += [ReadColumn(str(name), data_type, argument_name(i)) for i, (name, data_type) in enumerate(arguments)]
    if stage.event_time is not None:
        reads.append(ReadColumn(stage.event_time, pa.timestamp("us", "UTC"), TIME_COLUMN))
    drift = replace(source.drift or Drift(), declared=tuple(schema.names))
    return tuple(replace(column, drift=drift) for column in reads)


def _is_plain_parquet(source: FileSourceSpec) -> bool:
    return source.format == "parquet" and not source.options and is_plain_folder(source.path)
