"""Savepoints that earlier versions have left are restored by this one, and their jobs go on to the exact answer."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.savepoint import read_savepoint, savepoint_manifest, verify_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.driver.run import Until
from mixedmode.operators.map.items import ItemCodec
from tests.differential.oracle import differences, keyed
from tests.differential.stories import fold
from tests.golden import visits
from tests.harness import manifests, output_changes, output_rows, run, write_json

HERE = Path(__file__).parent
SAVEPOINTS = sorted(HERE.glob("savepoint-*"))
STEPS = ["counted", "visits", "aggregate-2", "aggregate-3"]
BYTES_MAX = 200_000  # of each, as they stay for ever


@pytest.mark.parametrize("place", SAVEPOINTS, ids=lambda place: place.name)
def test_a_savepoint_of_every_format_is_whole_and_small(place: Path) -> None:
    store = ObjectStore(place)
    savepoint = read_savepoint(store)
    verify_savepoint(store, savepoint)
    manifest = savepoint_manifest(store, savepoint)
    states = [operator.operator_id for operator in manifest.operators]
    assert (states, [state.operator_id for state in manifest.list_states]) == (STEPS[1:], STEPS[:1])
    assert savepoint.bytes < BYTES_MAX


@pytest.mark.spark
@pytest.mark.parametrize(("function", "note"), [("Visits", ""), ("VisitsWithNote", "again")])
@pytest.mark.parametrize("place", SAVEPOINTS, ids=lambda place: place.name)
def test_a_savepoint_of_every_format_is_gone_on_from(
    spark: SparkSession, tmp_path: Path, place: Path, function: str, note: str
) -> None:
    """As it was, and with a field more in its state and other subtasks."""
    shutil.copytree(place, tmp_path / "savepoint")
    write_json(tmp_path / "in", "after.json", visits.records(visits.AFTER))
    job = visits.job(tmp_path, function=function, parallelism=3 if note else 2)
    moved = {visits.MADE_IN: str(tmp_path / "in")}
    restored = restore_savepoint(str(tmp_path / "savepoint"), job.spec, job.where, moved=moved, session=spark)
    assert list(restored.steps.kept) == STEPS
    assert restored.with_full_snapshot == {"aggregate-3"}
    run(job, spark, until=Until.DRAINED)
    assert not differences(visits.answer(note=note), keyed(output_rows(tmp_path / "out"), ["home"]))
    assert not differences(visits.answer(note=note), fold(output_changes(tmp_path / "out"), ["home"]))
    (lists,) = manifests(tmp_path / "checkpoints")[-1].list_states
    counts = [count for items in lists.lists for count in ItemCodec(int).unpack(items)]
    assert sum(counts) == len([*visits.BACKLOG, *visits.LIVE, *visits.AFTER])
