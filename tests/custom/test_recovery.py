"""After kills, also in the middle of `publish`, and after damage, the document's journal holds each row once.

By default only the kill in the middle of `publish`: tests/connectors has a backlog that is repeated, and an older
checkpoint, for a custom source and sink.
"""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.errors import RetryableError
from tests.custom.example import Example, answer, some_readings
from tests.faults.processes import finished
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]

#: a journal that is killed once, when it has written half of an epoch; and readings that cannot be read for a while
BROKEN = """\
import os
import signal
from pathlib import Path

from journal import Journal
from readings import Readings


class LockedReadings(Readings):
    def __init__(self, path, locked):
        super().__init__(path)
        self.locked = Path(locked)

    def read(self, split):
        if self.locked.exists():
            raise OSError("the table is locked")
        yield from super().read(split)


class DyingJournal(Journal):
    def __init__(self, path, die):
        super().__init__(path)
        self.die = Path(die)

    def publish(self, epoch, batches):
        super().publish(epoch, self.first_rows(epoch, batches))

    def first_rows(self, epoch, batches):
        for batch in batches:
            yield batch.slice(0, 2)
            if self.die.exists():
                with open(self.path, "ab") as file:
                    file.write(b'{"sensor": "half a li')
                self.die.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(2)
"""


def broken(example: Example) -> tuple[Path, Path]:
    """Files that break the example's source and sink while they are there."""
    locked, die = example.folder / "locked", example.folder / "die"
    (example.folder / "broken.py").write_text(BROKEN, encoding="utf-8")
    file = example.folder / "job.yaml"
    text = file.read_text(encoding="utf-8").replace(
        "journal:Journal, args: {", f"broken:DyingJournal, args: {{die: {die}, "
    )
    text = text.replace("readings:Readings, args: {", f"broken:LockedReadings, args: {{locked: {locked}, ")
    file.write_text(f"{text}spark: {{master: 'local[2]', driver.memory: 1g}}\n", encoding="utf-8")
    return locked, die


@pytest.mark.soak
def test_a_backlog_that_failed_is_repeated_over_the_same_range(spark: SparkSession, tmp_path: Path) -> None:
    example = Example(tmp_path / "a folder")
    locked, _ = broken(example)
    readings, later = some_readings(0, 300), some_readings(300, 40)
    example.add(readings)
    locked.touch()
    with pytest.raises(RetryableError, match=r"raised OSError: the table is locked in `read`"):
        run(example.job(), spark)
    assert not manifests(example.checkpoints)
    locked.unlink()
    example.add(later)
    run(example.job(), spark)
    assert [one.records_in for one in manifests(example.checkpoints)] == [300, 40], "the backlog is what it was"
    assert example.table() == answer(readings + later)


def test_a_kill_in_the_middle_of_publishing(spark: SparkSession, scratch_folder: Path, tmp_path: Path) -> None:
    example = Example(tmp_path / "a folder")
    _, die = broken(example)
    readings, later = some_readings(0, 300), some_readings(300, 40)
    example.add(readings)
    die.touch()
    code, output, errors = finished("run", example.folder / "job.yaml", "--until-idle")
    assert (code, die.exists()) == (-signal.SIGKILL, False), (output, errors)
    assert b"half a li" in example.journal.read_bytes()
    assert [one.records_in for one in manifests(example.checkpoints)] == [300]
    example.add(later)
    run(example.job(), spark)
    assert [epoch for epoch, _ in example.epochs()] == [0, 1]
    assert example.table() == answer(readings + later)


@pytest.mark.soak
def test_going_back_takes_later_epochs_out_of_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    example = Example(tmp_path / "a folder")
    readings = some_readings(0, 600)
    example.add(readings[:300])
    retained = "execution.checkpointing.num-retained=10"
    feed = [lambda: example.add(readings[300:400]), lambda: example.add(readings[400:500])]
    run(example.job(retained), spark, feed=feed)
    before = example.epochs()
    newest = manifests(example.checkpoints)[-1]
    (example.checkpoints / paths.manifest_path(newest.epoch)).write_bytes(b"damaged")
    example.add(readings[500:])
    recording = run(example.job(retained), spark)
    assert [one.to for one in recording.went_back] == [1]
    assert [event.records for event in recording.committed] == [200], "its own 100 again, with those that came since"
    assert example.epochs()[:2] == before[:2]
    assert example.table() == answer(readings)
