"""Every test that takes `place` runs twice: over PostgreSQL, where there is one, and over SQLite."""

from pathlib import Path

import pytest

from tests.services.fixtures import Database
from tests.tables.places import Place


@pytest.fixture(params=["postgres", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", tmp_path)
    database: Database = request.getfixturevalue("database")
    return Place("postgres", tmp_path, database.url)


@pytest.fixture
def postgres_place(database: Database, tmp_path: Path) -> Place:
    return Place("postgres", tmp_path, database.url)


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return Place("sqlite", tmp_path)
