"""The entry of the registry for PostgreSQL."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.postgres.spec import PostgresSinkSpec, PostgresTableSpec

KIND = ConnectorKind(
    "postgres",
    source=PostgresTableSpec,
    sink=PostgresSinkSpec,
    open_source="mixedmode.connectors.postgres.dimension:open_postgres_dimension",
    open_sink="mixedmode.connectors.postgres.sink:open_postgres_sink",
    check_library="mixedmode.connectors.postgres.sink:check_library",
    check_service="mixedmode.connectors.postgres.reach:check_database",
)
