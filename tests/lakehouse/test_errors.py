"""Texts of the formats about a commit, and entries of their histories: each is taken for what it means."""

import json
import re
from dataclasses import replace
from typing import Any, cast
from zipfile import ZipFile

import pytest
from pyspark.sql import Row

from mixedmode.connectors.lakehouse.delta import DeltaTable
from mixedmode.connectors.lakehouse.errors import is_conflict, output_problem
from mixedmode.connectors.lakehouse.table import NO_EPOCH, Mark, newest_mark
from tests.lakehouse.jars import delta_jars, iceberg_jars

#: of Delta's conditions with the SQLSTATE of conflicts: those that are defects of the program that commits
NO_CONFLICTS = {"DELTA_DELETION_VECTOR_MISSING_NUM_RECORDS", "DELTA_DUPLICATE_ACTIONS_FOUND"}
#: the classes of Iceberg that look for conflicts before a commit, and what they say then
ICEBERG_CHECKS = ("MergingSnapshotProducer", "ManifestFilterManager")
ICEBERG_SAYS = re.compile(rb"(?:Found|Missing required|Cannot commit,) [ -~]*?%s")


@pytest.fixture
def conditions(jars: str) -> dict[str, dict[str, str]]:
    """Delta's error conditions: {name: {"sqlState", "message"}}."""
    assert jars
    (jar,) = (jar for jar in delta_jars() if jar.name.startswith("delta-spark"))
    with ZipFile(jar) as archive:
        found = json.loads(archive.read("error/delta-error-classes.json"))
    return {name: {**one, "message": " ".join(one["message"])} for name, one in found.items()}


def test_delta_has_no_conflict_after_which_the_commit_is_not_repeated(conditions: dict[str, dict[str, str]]) -> None:
    texts = {
        name: one["message"]
        for name, one in conditions.items()
        if one.get("sqlState") == "2D521" and name not in NO_CONFLICTS
    }
    assert len(texts) >= 7
    assert not [name for name, text in texts.items() if not is_conflict(text)]


def test_iceberg_has_no_conflict_after_which_the_commit_is_not_repeated(jars: str) -> None:
    assert jars
    (jar,) = iceberg_jars()
    with ZipFile(jar) as archive:
        classes = [archive.read(f"org/apache/iceberg/{name}.class") for name in ICEBERG_CHECKS]
    texts = {text.decode() for one in classes for text in ICEBERG_SAYS.findall(one)}
    assert {"Missing required files to delete: %s", "Cannot commit, missing data files: %s"} < texts
    assert not [text for text in texts if not is_conflict(text)]


def test_a_table_that_takes_no_changes_is_told_with_the_property(conditions: dict[str, dict[str, str]]) -> None:
    said = conditions["DELTA_CANNOT_MODIFY_APPEND_ONLY"]["message"]
    assert str(output_problem(said, "table=delta /t")) == (
        "the table of an output takes new rows only, and this output updates or deletes rows of its keys. Nothing of "
        "the epoch, which is committed, was written. Remove the property (ALTER TABLE ... SET TBLPROPERTIES "
        "('delta.appendOnly' = 'false')), and start the job again: it writes the epoch then. table=delta /t"
    )


def test_a_table_that_was_set_back_to_a_time_is_whole_again_at_the_version_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time does not say which version it was, so no epoch counts; the version before the RESTORE has all of them."""
    table, mark = DeltaTable(cast("Any", None), "/t", None), Mark("lake", "", "epoch", 0)
    history = [
        Row(version=4, operation="RESTORE", operationParameters={"version": "2"}, userMetadata=None),
        Row(version=3, operation="RESTORE", operationParameters={"timestamp": "now"}, userMetadata=None),
        Row(version=2, operation="WRITE", operationParameters={}, userMetadata=replace(mark, epoch=1).to_text()),
        Row(version=1, operation="WRITE", operationParameters={}, userMetadata=mark.to_text()),
    ]
    found = []
    for newest in (1, 0):
        monkeypatch.setattr(table, "_history", lambda first=newest: iter(history[first:]))
        newest_epoch = newest_mark(table.commits(("lake", "")))
        assert newest_epoch is not None
        found.append((newest_epoch.kind, newest_epoch.epoch))
    assert found == [("back", NO_EPOCH), ("epoch", 1)]
