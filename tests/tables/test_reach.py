"""The checks of a database before a job runs, against a real PostgreSQL: each refusal says what to correct."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mixedmode.config import JobSpec
from mixedmode.driver.reach import connection_problems
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from tests.services.fixtures import Database


def problem(url: str, tmp_path: Path) -> MixedmodeError | None:
    """The problem of a job with an output in this database; None if there is none."""
    job = JobSpec.model_validate(
        {
            "name": "shops",
            "execution": {"checkpointing": {"dir": str(tmp_path / "checkpoints")}},
            "sources": {"t": {"format": "parquet", "path": str(tmp_path)}},
            "steps": [{"key-by": "k", "aggregate": {"n": "count(*)"}}],
            "sink": {"format": "postgres", "url": url, "table": "shops"},
        }
    )
    found = connection_problems(None, job, lambda *path: ".".join(map(str, path)))  # type: ignore[arg-type]
    assert len(found) <= 1
    return found[0] if found else None


def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_database_that_takes_the_login_is_no_problem(database: Database, tmp_path: Path) -> None:
    assert problem(database.url, tmp_path) is None


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ("database", InvalidJobError, "the database refuses this login. Correct user, password or database in `url`."),
        ("user", InvalidJobError, "the database refuses this login. Correct user, password or database in `url`."),
        ("password", InvalidJobError, "the database refuses this login. Correct user, password or database in `url`."),
        ("port", RetryableError, "the database cannot be reached. See that it runs, and that host and port in `url`"),
        ("host", RetryableError, "the database cannot be reached. See that it runs, and that host and port in `url`"),
    ],
)
def test_a_refusal_of_a_real_server_says_what_to_correct(
    database: Database, tmp_path: Path, change: str, kind: type[MixedmodeError], said: str
) -> None:
    parts = urlsplit(database.url)
    name = parts.path.removeprefix("/")
    if change == "password":
        database.sql(f"CREATE ROLE guarded_{name} LOGIN PASSWORD 'right'")
    urls = {
        "database": f"postgresql://{parts.netloc}/nowhere?{parts.query}",
        "user": f"postgresql://nobody@{parts.hostname}:{parts.port}/{name}?{parts.query}",
        "password": f"postgresql://guarded_{name}:wrong-secret@{parts.hostname}:{parts.port}/{name}?{parts.query}",
        "port": f"postgresql://{parts.username}@{parts.hostname}:{unused_port()}/{name}",
        "host": f"postgresql://{parts.username}@no-such-host.invalid/{name}",
    }
    found = problem(urls[change], tmp_path)
    assert type(found) is kind, found
    assert str(found).startswith(f"sink: {said}"), found
    assert "wrong-secret" not in str(found)
    assert "\n" not in str(found)
