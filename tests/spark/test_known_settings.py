"""Settings that Spark would ignore are found, and those of an extension are not. With a session of three names."""

from types import SimpleNamespace as Values
from typing import Any

import pytest

from mixedmode.spark import known_settings
from mixedmode.spark.known_settings import misspelt_settings


class Entries:
    """The settings that a session knows. An extension adds its own in between, as its classes are loaded."""

    def __init__(self, added: dict[str, object]) -> None:
        self.names: dict[str, object] = {"spark.sql.session.timeZone": 0, "spark.sql.ansi.enabled": 0}
        self.added = added

    def findEntry(self, name: str) -> object:  # noqa: N802 - Spark's name
        return self.names.get(name)

    def knownConfigs(self) -> Any:  # noqa: N802 - Spark's name
        self.names |= self.added
        return Values(keySet=lambda: Values(toString=lambda: f"[{', '.join(self.names)}]"))


@pytest.mark.parametrize("added", [{}, {"spark.databricks.delta.snapshotPartitions": 0}])
def test_only_a_setting_that_misspells_one_of_spark_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, added: dict[str, object]
) -> None:
    entries = {"org.apache.spark.internal.config.ConfigEntry$": Values(**{"MODULE$": Entries(added)})}
    monkeypatch.setattr(known_settings, "java_class", lambda _, name: entries[name])
    session: Any = _Session()
    names = ["spark.master", "spark.sql.session.timezone", "spark.databricks.delta.snapshotPartitions"]
    found = misspelt_settings(session, names, lambda *path: ".".join(map(str, path)))
    (mistake,) = map(str, found)
    assert mistake == (
        "spark.spark.sql.session.timezone: Spark has no setting of this name, and ignores it. "
        "Did you mean spark.sql.session.timeZone?"
    )


class _Session:
    sparkContext = None  # noqa: N815 - Spark's name
