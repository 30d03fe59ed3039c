"""Opens a table as a source."""

from pyspark.sql import SparkSession

from mixedmode.connectors.lakehouse.delta_source import DeltaSource
from mixedmode.connectors.lakehouse.iceberg_source import IcebergSource
from mixedmode.connectors.lakehouse.source import LakehouseSource
from mixedmode.connectors.lakehouse.spec import TableSourceSpec

__all__ = ["open_table"]


def open_table(session: SparkSession, source: TableSourceSpec, *, where: str) -> LakehouseSource:
    """Return the source. Raise InvalidJobError, beginning with `where`, if the table does not exist."""
    return {"delta": DeltaSource, "iceberg": IcebergSource}[source.format](session, source, where=where)
