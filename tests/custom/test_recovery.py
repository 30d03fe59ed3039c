"""After kills, also in the middle of `publish`, and after damage, the document's journal holds each row once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from tests.custom.example import Example, answer, some_readings
from tests.faults.processes import finished, killed_at
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]

#: a journal that is killed once, when it has written half of an epoch
DYING = """\
import os
import signal
from pathlib import Path

from journal import Journal


class DyingJournal(Journal):
    def __init__(self, path, die):
        super().__init__(path)
        self.die = Path(die)

    def publish(self, epoch, batches):
        super().publish(epoch, self.first_rows(epoch, batches))

    def first_rows(self, epoch, batches):
        for batch in batches:
            yield batch.slice(0, 2)
            if epoch == 1 and self.die.exists():
                with open(self.path, "ab") as file:
                    file.write(b'{"sensor": "half a li')
                self.die.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(2)
"""


def test_kills_before_a_commit_and_in_the_middle_of_publishing(
    spark: SparkSession, scratch_folder: Path, tmp_path: Path
) -> None:
    example = Example(tmp_path / "a folder")
    (example.folder / "dying.py").write_text(DYING, encoding="utf-8")
    die = example.folder / "die"
    file = example.folder / "job.yaml"
    text = file.read_text().replace("journal:Journal, args: {", f"dying:DyingJournal, args: {{die: {die}, ")
    file.write_text(f"{text}spark: {{master: 'local[2]', driver.memory: 1g}}\n")
    readings = some_readings(0, 300)
    example.add(readings)
    killed_at(file, "before-manifest", 0)
    assert not manifests(example.checkpoints)
    later = some_readings(300, 40)
    example.add(later)
    die.touch()
    code, output, errors = finished("run", file, "--until-idle")
    assert (code, die.exists()) == (-9, False), (output, errors)
    assert b"half a li" in example.journal.read_bytes()
    assert [one.records_in for one in manifests(example.checkpoints)] == [300, 40], "the backlog is what it was"
    run(example.job(), spark)
    assert [epoch for epoch, _ in example.epochs()] == [0, 1]
    assert example.table() == answer(readings + later)


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
