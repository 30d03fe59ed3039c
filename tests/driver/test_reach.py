"""Topics and databases are checked before a job runs, and one report has all that is wrong. Without Spark."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config import JobSpec
from mixedmode.connectors.postgres import reach
from mixedmode.connectors.postgres.reach import ask_database
from mixedmode.driver.reach import connection_problems, library_problems
from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from mixedmode.sinks.tables.database import LostConnectionError

KAFKA = {"format": "kafka", "bootstrap-servers": "b:9092"}
VALUE = {"format": "json", "schema": "user string"}
JOB: dict[str, Any] = {
    "name": "carts",
    "execution": {"checkpointing": {"dir": "/c"}},
    "sources": {
        "clicks": {**KAFKA, "topics": ["clicks"], "value": VALUE},
        "both": {
            "history": {"format": "parquet", "path": "/h"},
            "live": {**KAFKA, "topics": ["live"], "value": VALUE},
            "seam": {"timestamp": "2026-01-01T00:00:00Z"},
            "event-time": "at",
        },
    },
    "steps": [
        {"sql": "SELECT * FROM clicks"},
        {
            "key-by": "user",
            "process": "carts:Session",
            "output": "user string",
            "outputs": {"gone": {**KAFKA, "topic": "gone", "schema": "user string"}},
        },
    ],
    "sink": {"format": "postgres", "url": "postgresql://u@h/db", "table": "carts"},
}


UNKNOWN_TOPIC = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host it"


def where(*path: str | int) -> str:
    return ".".join(map(str, path))


class Broker:
    """A session whose Kafka has only the topics given."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics
        self.read = self

    def format(self, name: str) -> "Broker":
        assert name == "kafka"
        return self

    def options(self, **options: str) -> Any:
        topic = options["subscribe"]

        def partitions() -> int:
            if topic not in self._topics:
                raise PySparkException(UNKNOWN_TOPIC)
            return 1

        return SimpleNamespace(load=lambda: SimpleNamespace(rdd=SimpleNamespace(getNumPartitions=partitions)))


def database(error: Exception | None) -> Any:
    @contextmanager
    def transaction() -> Iterator[None]:
        if error is not None:
            raise error
        yield

    return SimpleNamespace(transaction=transaction, place="postgres h:5432/db public.carts")


def test_each_topic_and_database_that_is_missing_has_a_line_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = LostConnectionError('FATAL: password authentication failed for user "u"')
    monkeypatch.setattr(reach, "postgres_table", lambda _sink: database(refused))
    session: Any = Broker("clicks")

    found = connection_problems(session, JobSpec.model_validate(JOB), where)
    with pytest.raises(InvalidJobError) as caught:
        raise_all(found)

    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["sources.both.live", "sink", "steps.1.outputs.gone"]
    assert lines[0].endswith(", topic=live")
    assert "a Kafka topic of the job does not exist, and the job makes none." in lines[0]
    assert "the database refuses this login. Correct user, password or database in `url`." in lines[1]
    assert lines[2].endswith(", topic=gone")


def test_what_is_all_there_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "postgres_table", lambda _sink: database(None))
    session: Any = Broker("clicks", "live", "gone")
    assert connection_problems(session, JobSpec.model_validate(JOB), where) == []


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('FATAL: password authentication failed for user "u"', InvalidJobError),
        ("fe_sendauth: no password supplied", InvalidJobError),
        ('FATAL: database "db" does not exist', InvalidJobError),
        ('FATAL: role "u" does not exist', InvalidJobError),
        ("connection refused. Is the server running on that host?", RetryableError),
        ("FATAL: the database system is starting up", RetryableError),
    ],
)
def test_a_login_that_is_refused_is_corrected_and_a_server_that_is_away_is_waited_for(
    said: str, kind: type[MixedmodeError]
) -> None:
    with pytest.raises(MixedmodeError) as caught:
        ask_database(database(LostConnectionError(said)))
    assert type(caught.value) is kind
    assert said in str(caught.value)


def test_a_library_that_is_missing_is_found_without_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mixedmode.connectors.postgres.table", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    (problem,) = library_problems(JobSpec.model_validate(JOB), where)
    assert str(problem).startswith("sink: a job that uses PostgreSQL needs the library psycopg")
    assert "[postgres]" in str(problem)


def test_what_has_to_be_corrected_decides_the_kind_of_a_report() -> None:
    found: list[MixedmodeError] = []
    away = RetryableError("away")
    for error in (away, InvalidJobError("wrong"), CorruptStateError("damaged"), away):
        with collecting(found):
            raise error
    with pytest.raises(InvalidJobError) as caught:
        raise_all(found)
    assert str(caught.value) == "away\nwrong\ndamaged"
