"""Jars come once, whole, and without what PySpark has; what cannot be had is said, and not asked for all the time."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mixedmode.connectors.kafka.jars import kafka_connector
from mixedmode.errors import RetryableError
from mixedmode.spark import jars
from mixedmode.spark.jars import Jars, fetch, required_java
from tests.lakehouse import jars as lakehouse_jars
from tests.lakehouse.jars import delta_jars, iceberg_jars
from tests.services.fixtures import need_kafka

NOWHERE = Jars(("org.example.nowhere:nothing:1.0",))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A java that says what Ivy does when a module is not there."""
    fake = tmp_path / "java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\necho '\t\t:: org.example.nowhere#nothing;1.0: not found'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))


def test_what_cannot_be_had_is_an_error_that_says_what_to_do(tmp_path: Path, no_network: None) -> None:
    with pytest.raises(RetryableError) as caught:
        fetch("nothing-1.0", [NOWHERE], cache=tmp_path)
    folder = tmp_path / "artifacts" / "nothing-1.0"
    assert str(caught.value) == (
        "jars could not be fetched, so what needs them cannot run. See whether this machine reaches Maven Central, or "
        "copy the folder below from a machine that could fetch it. The next try is 10 minutes after the last one, or "
        "when nothing-1.0.failure beside it is removed. jars=org.example.nowhere:nothing:1.0, "
        f"folder={folder}, reason=org.example.nowhere#nothing;1.0: not found"
    )
    assert not folder.exists()


def test_a_failure_is_remembered_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Jars] = []

    def away(jars: Jars, folder: Path) -> str:
        tried.append(jars)
        return "it is away"

    monkeypatch.setattr(jars, "_try", away)
    for _ in range(3):
        with pytest.raises(RetryableError, match="reason=it is away"):
            fetch("nothing-1.0", [NOWHERE, NOWHERE], cache=tmp_path)
    assert tried == [NOWHERE, NOWHERE], "both choices, once"
    monkeypatch.setattr(jars, "RETRY_AFTER_S", 0)
    with pytest.raises(RetryableError, match="reason=it is away"):
        fetch("nothing-1.0", [NOWHERE], cache=tmp_path)
    assert len(tried) == 3


@pytest.mark.parametrize("days", [-1, 1])
def test_a_failure_is_not_remembered_after_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    reasons = iter(["it is away", "it is still away"])
    monkeypatch.setattr(jars, "_try", lambda *_: next(reasons))
    with pytest.raises(RetryableError, match="reason=it is away"):
        fetch("nothing-1.0", [NOWHERE], cache=tmp_path)
    (failure,) = tmp_path.rglob("*.failure")
    noted = failure.stat().st_mtime + days * 86_400
    os.utime(failure, (noted, noted))
    with pytest.raises(RetryableError, match="reason=it is still away"):
        fetch("nothing-1.0", [NOWHERE], cache=tmp_path)


def test_the_next_choice_counts_where_the_first_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Jars(("org.example:good:1.0",))

    def only_good(jars: Jars, folder: Path) -> str | None:
        if jars != good:
            return "it is away"
        folder.mkdir()
        (folder / "good-1.0.jar").touch()
        return None

    monkeypatch.setattr(jars, "_try", only_good)
    (jar,) = fetch("set", [NOWHERE, good], cache=tmp_path)
    assert jar.name == "good-1.0.jar"
    monkeypatch.setattr(jars, "_try", lambda *_: pytest.fail("asked for again"))
    assert fetch("set", [NOWHERE, good], cache=tmp_path) == [jar]


def test_two_that_ask_at_once_get_the_same_from_one_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, second_asks = [], threading.Event()

    def slowly(jars: Jars, folder: Path) -> None:
        fetched.append(folder)
        assert second_asks.wait(10)
        whole = tmp_path / "whole"
        whole.mkdir()
        (whole / "a.jar").touch()
        whole.rename(folder)  # all at once, as `_try` does: the second may look at any moment

    def ask(is_second: bool) -> list[Path]:
        if is_second:
            second_asks.set()
        return fetch("set", [NOWHERE], cache=tmp_path)

    monkeypatch.setattr(jars, "_try", slowly)
    with ThreadPoolExecutor(2) as threads:
        one, two = threads.map(ask, [False, True])
    assert one == two == [fetched[0] / "a.jar"]
    assert len(fetched) == 1


def test_the_connector_is_what_spark_needs_and_has_not() -> None:
    need_kafka()
    names = [jar.name.rpartition("-4" if "spark" in jar.name else "-")[0] for jar in kafka_connector()]
    assert [name for name in names if name.startswith("spark-")] == [
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
    ]
    assert {"kafka-clients", "commons-pool2"} <= set(names)
    assert not set(names) & set(jars._spark_modules())


def test_a_jar_of_pyspark_is_known_by_its_module() -> None:
    modules = jars._spark_modules()
    assert {"lz4-java", "spark-tags_2.13", "log4j-1.2-api", "hadoop-client-runtime", "jsr305"} <= set(modules)


@pytest.mark.parametrize(("found", "first"), [(delta_jars, "delta-"), (iceberg_jars, "iceberg-spark-runtime")])
def test_lakehouse_jars_are_only_their_own(
    found: object, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{first}1.jar", "jackson-core-2.jar"] if first == "delta-" else [f"{first}-4.1_2.13-1.12.0.jar"]
    monkeypatch.setattr(lakehouse_jars, "fetch", lambda name, choices: [tmp_path / name for name in names])
    assert callable(found)
    assert [jar.name for jar in found()] == names[:1]


def test_without_java_the_message_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RetryableError, match=r"there is no java on this machine.*Install a JDK, 17 or later"):
        required_java()
