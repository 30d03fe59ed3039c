"""Checks that a PostgreSQL database exists, can be reached, and takes the login."""

import re

from pyspark.sql import SparkSession

from mixedmode.connectors.postgres.sink import postgres_table
from mixedmode.connectors.postgres.spec import PostgresSinkSpec, PostgresTableSpec
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.secrets import hidden
from mixedmode.sinks.tables.database import Database, LostConnectionError

#: messages with which PostgreSQL refuses a login; the server has answered, so a repeat would not help
_REFUSED_LOGIN = re.compile(
    r"password authentication failed|no password supplied|role \S+ does not exist|database \S+ does not exist"
    r"|no pg_hba\.conf entry|is not permitted to log in|permission denied for database"
)


def check_database(_session: SparkSession, section: PostgresSinkSpec | PostgresTableSpec) -> None:
    """Raise as `ask_database` does, for the database of a sink. A dimension has been asked for its columns already."""
    if isinstance(section, PostgresSinkSpec):
        ask_database(postgres_table(section))


def ask_database(database: Database) -> None:
    """Log in and out. Raise InvalidJobError if the login is refused, RetryableError if the server does not answer."""
    try:
        with database.transaction():
            pass
    except LostConnectionError as error:
        raise not_reached(hidden(str(error)), database.place) from error


def not_reached(cause: str, place: str) -> InvalidJobError | RetryableError:
    """Return the error for a server that refuses the login, or that does not answer."""
    if _REFUSED_LOGIN.search(cause):
        msg = (
            "the database refuses this login. Correct user, password or database in `url`. "
            f"cause={cause}, table={place}"
        )
        return InvalidJobError(msg)
    msg = (
        "the database cannot be reached. See that it runs, and that host and port in `url` are right; then start "
        f"again. cause={cause}, table={place}"
    )
    return RetryableError(msg)
