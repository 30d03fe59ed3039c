"""The entry of the registry for PostgreSQL."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.postgres.spec import PostgresSinkSpec

KIND = ConnectorKind(
    "postgres",
    sink=PostgresSinkSpec,
    open_sink="mixedmode.connectors.postgres.sink:open_postgres_sink",
    check_library="mixedmode.connectors.postgres.sink:postgres_table",
    check_service="mixedmode.connectors.postgres.reach:check_database",
)
