"""The entry of the registry for Delta Lake and Iceberg."""

from mixedmode.config.registry import ConnectorKind, SparkPackage
from mixedmode.connectors.lakehouse.spec import TableSinkSpec, TableSourceSpec

#: Maven coordinates of the builds for Spark 4.1
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_EXTENSIONS = "spark.sql.extensions"

KIND = ConnectorKind(
    "lakehouse",
    source=TableSourceSpec,
    sink=TableSinkSpec,
    open_source="mixedmode.connectors.lakehouse.opening:open_table",
    open_sink="mixedmode.connectors.lakehouse.sink:LakehouseSink",
    packages={
        "delta": SparkPackage(
            "Delta Lake",
            {"4.1": DELTA},
            {
                _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                # by default, Delta reads each table's log with 50 tasks, and an epoch has to wait for them
                "spark.databricks.delta.snapshotPartitions": "2",
            },
        ),
        "iceberg": SparkPackage(
            "Apache Iceberg",
            {"4.1": ICEBERG},
            {_EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
        ),
    },
    errors="mixedmode.connectors.lakehouse.errors:lakehouse_problem",
)
