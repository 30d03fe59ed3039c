"""A job that goes on from a savepoint, as it was or changed, here or elsewhere, ends at the answer over all rows.

One job runs: a backlog, an epoch after which a savepoint is taken while the job goes on, and an epoch more. Each test
restores to a job of its own, over the same input with one more file, and compares with plain Python.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import restore as restoring
from mixedmode.checkpoint.savepoint import create_savepoint, read_savepoint, verify_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver.events import EpochCommitted
from mixedmode.driver.restoring import RestoredJob, restore_savepoint
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.differential.cases import Rows, parquet_piece
from tests.differential.oracle import Call, Table, aggregate, differences, keyed
from tests.differential.stories import fold
from tests.harness import SPARK, Recording, checkpoint_log, manifests, output_changes, output_rows, run

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("shop", pa.string()), ("item", pa.int32()), ("price", pa.int64())])
DDL = "shop string, item int, price bigint"
SAVED = 1  # the epoch of the savepoint


def sales(seed: int, count: int = 60) -> Rows:
    return [
        {"shop": f"shop {i * seed % 7}", "item": i * i % 5, "price": (i * 37 * seed) % 90 - 30} for i in range(1, count)
    ]


@dataclass
class Shops:
    """The input of all jobs, the savepoint, and where the first job wrote to."""

    base: Path
    rows: Rows

    @property
    def savepoint(self) -> Path:
        return self.base / "savepoint"

    def add(self, seed: int) -> None:
        parquet_piece(f"{seed:03}", sales(seed), SCHEMA)(self.base / "in")
        self.rows += sales(seed)

    def job(self, name: str, *, out: Path | None = None, **settings: Any) -> Job:
        defaults: dict[str, Any] = {"mode": "mixed", "parallelism": 2, "max_parallelism": 12, "spark": SPARK}
        job = Job(
            "shops",
            sources={"sales": Source.parquet(self.base / "in", schema=DDL)},
            checkpoint_dir=self.base / name / "checkpoints",
            **{**defaults, **settings},
        )
        return job.write(Sink.parquet(out or self.base / name / "out"))


def items(job: Job) -> Job:
    return job.key_by("shop", "item").aggregate(sold="count(*)", income="sum(price)")


def best(job: Job) -> Job:
    job = items(job).sql("SELECT * FROM previous WHERE income > 0")
    return job.key_by("shop").aggregate(items="count(*)", best="max(income)", income="sum(income)")


def by_count(job: Job) -> Job:
    return best(job).key_by("items").aggregate(shops="count(*)", income="sum(income)", most="max(best)")


def changed(job: Job) -> Job:
    return job.key_by("shop", "item").aggregate(sold="count(*)", most="max(price)")


def items_answer(rows: Rows) -> Table:
    return aggregate(rows, ["shop", "item"], {"sold": Call("count"), "income": Call("sum", "price")})


def best_answer(rows: Rows) -> Table:
    kept = [row for row in items_answer(rows).values() if row["income"] > 0]
    calls = {"items": Call("count"), "best": Call("max", "income"), "income": Call("sum", "income")}
    return aggregate(kept, ["shop"], calls)


def by_count_answer(rows: Rows) -> Table:
    calls = {"shops": Call("count"), "income": Call("sum", "income"), "most": Call("max", "best")}
    return aggregate(list(best_answer(rows).values()), ["items"], calls)


@pytest.fixture(scope="module")
def shops(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shops:
    shops = Shops(tmp_path_factory.mktemp("savepoints"), [])
    (shops.base / "in").mkdir()
    shops.add(1)
    log = checkpoint_log(shops.base / "first" / "checkpoints")

    def take(event: EpochCommitted) -> None:
        if event.epoch == SAVED:
            create_savepoint(log, ObjectStore(shops.savepoint), now_ms=1)

    recording = Recording(feed=[lambda: shops.add(2), lambda: shops.add(3)], on_commit=take)
    run(best(shops.job("first")), spark, observer=recording)
    assert [manifest.epoch for manifest in manifests(shops.base / "first" / "checkpoints")] == [0, SAVED, 2]
    return shops


def restore(place: Path, job: Job, spark: SparkSession, *, allow_dropped: bool = False) -> RestoredJob:
    return restore_savepoint(str(place), job.spec, job.where, allow_dropped=allow_dropped, session=spark)


def power_cut(name: str, epoch: int) -> None:
    msg = f"{name}@{epoch}"
    raise RetryableError(msg)


def check(out: Path, answer: Table, key_by: list[str]) -> None:
    assert not differences(answer, keyed(output_rows(out), key_by))
    assert not differences(answer, fold(output_changes(out), key_by)), "as a reader of each change sees it"


def test_elsewhere_with_other_parallelism_later_outputs_are_rolled_back(
    spark: SparkSession, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, out = shops.base / "moved" / "here", shops.base / "same" / "out"
    shutil.copytree(shops.savepoint, moved)
    shutil.copytree(shops.base / "first" / "out", out)
    job = best(shops.job("same", parallelism=3))
    assert list(out.glob("part-0000000002-*")), "of the epoch after the savepoint"
    with monkeypatch.context() as patch:
        patch.setattr(restoring, "reach", power_cut)
        with pytest.raises(RetryableError, match="restore@1"):
            restore(moved, job, spark)
    with pytest.raises(CorruptStateError):
        run(job, spark)  # over half of a restore
    restored = restore(moved, job, spark)
    assert (restored.outputs, restored.new_outputs, restored.with_full_snapshot) == (("",), (), frozenset())
    assert not list(out.glob("part-0000000002-*"))
    shutil.rmtree(moved.parent)
    shops.add(4)
    run(job, spark)
    check(out, best_answer(shops.rows), ["shop"])
    latest = manifests(shops.base / "same" / "checkpoints")[-1]
    assert (latest.epoch, latest.parallelism) == (2, 3)
    with pytest.raises(InvalidJobError, match="holds something of another run"):
        restore(shops.savepoint, job, spark)


def test_into_a_new_output_goes_the_whole_table(spark: SparkSession, shops: Shops) -> None:
    job = best(shops.job("new"))
    restored = restore(shops.savepoint, job, spark)
    assert (restored.outputs, restored.new_outputs) == ((), ("",))
    assert restored.with_full_snapshot == {"aggregate-2"}
    assert restore(shops.savepoint, job, spark).was_done, "a restore may be repeated"
    shops.add(5)
    run(job, spark)
    changes = output_changes(shops.base / "new" / "out")
    assert {(row["_op"], row["_epoch"]) for row in changes} == {("insert", 2)}
    shops.add(6)
    run(job, spark)
    check(shops.base / "new" / "out", best_answer(shops.rows), ["shop"])


def test_a_step_that_is_added_is_exact(spark: SparkSession, shops: Shops) -> None:
    into_old = by_count(shops.job("added", out=shops.base / "first" / "out"))
    with pytest.raises(InvalidJobError, match=r"steps were added, removed or changed \('aggregate-3'\), so the main"):
        restore(shops.savepoint, into_old, spark)
    assert not (shops.base / "added").exists(), "nothing was written"
    job = by_count(shops.job("added", parallelism=1))
    restored = restore(shops.savepoint, job, spark)
    assert (restored.steps.kept, restored.steps.added) == (("aggregate-1", "aggregate-2"), ("aggregate-3",))
    assert restored.with_full_snapshot == {"aggregate-2"}
    shops.add(7)
    run(job, spark)
    shops.add(8)
    run(job, spark)
    check(shops.base / "added" / "out", by_count_answer(shops.rows), ["items"])


def test_a_step_that_is_removed_takes_its_state_along(spark: SparkSession, shops: Shops) -> None:
    job = items(shops.job("removed"))
    with pytest.raises(InvalidJobError, match=r"'aggregate-2' \(restore with --allow-dropped-state to leave that out"):
        restore(shops.savepoint, job, spark)
    restored = restore(shops.savepoint, job, spark, allow_dropped=True)
    assert restored.steps.dropped == ("aggregate-2",)
    shops.add(9)
    run(job, spark)
    check(shops.base / "removed" / "out", items_answer(shops.rows), ["shop", "item"])
    latest = manifests(shops.base / "removed" / "checkpoints")[-1]
    assert [operator.operator_id for operator in latest.operators] == ["aggregate-1"]


def test_what_a_job_cannot_go_on_from_is_refused_before_anything_is_written(spark: SparkSession, shops: Shops) -> None:
    refused = {
        r"pipeline\.max-parallelism was 12 and is 16": best(shops.job("refused", max_parallelism=16)),
        r"step 'aggregate-1' was changed": changed(shops.job("refused")),
        "a batch job has none": items(shops.job("refused", mode="batch")),
    }
    for message, job in refused.items():
        with pytest.raises(InvalidJobError, match=message):
            restore(shops.savepoint, job, spark)
    shutil.copytree(shops.savepoint, shops.base / "damaged")
    next((shops.base / "damaged" / "runs").rglob("*.sst")).unlink()
    with pytest.raises(CorruptStateError, match=r"the savepoint is damaged: runs/.*: it is missing"):
        restore(shops.base / "damaged", best(shops.job("refused")), spark)
    wrong = shops.base / "wrong" / "out"
    wrong.mkdir(parents=True)
    shutil.copy(shops.base / "first" / "out" / "_mixedmode", wrong)
    with pytest.raises(InvalidJobError, match="but not what it had written when the savepoint was taken"):
        restore(shops.savepoint, best(shops.job("refused", out=wrong)), spark)
    assert not (shops.base / "refused").exists()
    verify_savepoint(ObjectStore(shops.savepoint), read_savepoint(ObjectStore(shops.savepoint)))


def test_an_output_that_is_not_what_the_savepoints_job_wrote_is_not_touched(spark: SparkSession, shops: Shops) -> None:
    out = shops.base / "damaged" / "out"
    shutil.copytree(shops.base / "first" / "out", out)
    (part, *_) = sorted(out.glob(f"part-{SAVED:010}-*"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(InvalidJobError, match=f"an output folder holds .* file={part.name}, problem=has changed"):
        restore(shops.savepoint, best(shops.job("damaged")), spark)
    assert sorted(path.name for path in out.iterdir()) == before
    assert not (shops.base / "damaged" / "checkpoints").exists(), "nothing was written"
