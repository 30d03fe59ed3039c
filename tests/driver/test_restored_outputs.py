"""A restored job with any of its outputs in new places: it is refused, or each new output is complete."""

import itertools
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mixedmode
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.driver.savepoints import take_savepoint
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import write_parquet
from tests.local_engine import LocalEngine, World, local_session, run_locally

NAMES = ("files", "more", "table")
TOTALS = {"a": 4, "b": 2}  # after the records below; b gets none after the savepoint


def job(base: Path, checkpoints: str, new: frozenset[str] = frozenset(), *, chained: bool = False) -> Job:
    """Sums by key, in two folders, a table and on the screen.  new: in new places. chained: a step reads the sums."""
    place = {name: base / f"{name}{'-new' if name in new else ''}" for name in NAMES}
    source = Source.json(base / "in", schema="k string, v bigint")
    found = Job("sums", sources={"t": source}, parallelism=2, checkpoint_dir=base / checkpoints)
    sums = found.source("t").key_by("k").aggregate(total="sum(v)")
    if chained:
        found = found.output("count", sums.key_by("total").aggregate(keys="count(*)"), Sink.parquet(base / "count"))
    found = found.output("files", sums, Sink.parquet(place["files"]))
    found = found.output("more", sums, Sink.json(place["more"]))
    found = found.output("table", sums, Sink.sqlite(place["table"], table="sums"))
    return found.output("screen", sums, Sink.console())


def add(base: Path, **values: int) -> None:
    table = pa.table({"k": list(values), "v": pa.array(values.values(), pa.int64())})
    write_parquet(base / "in", f"{len(list((base / 'in').glob('*')))}.parquet", table)


def totals(base: Path, new: frozenset[str]) -> Mapping[str, Mapping[str, int]]:
    """Return {output: its current table}."""
    found: dict[str, Any] = {}
    for name in NAMES:
        place = base / f"{name}{'-new' if name in new else ''}"
        if name == "table":
            with sqlite3.connect(place) as connection:
                found[name] = dict(connection.execute("SELECT k, total FROM sums"))
            connection.close()
        else:
            found[name] = {row["k"]: row["total"] for row in mixedmode.read_output(place).to_pylist()}
    return found


def restored(base: Path, new: frozenset[str], *, chained: bool) -> None:
    """Take a savepoint after the first records, restore it, and run the job over one more record."""
    add(base, a=1, b=2)
    run_locally(job(base, "before", chained=chained), base / "in")
    take_savepoint(job(base, "before", chained=chained).spec, str(base / "savepoint"))
    after = job(base, "after", new, chained=chained)
    place, session = str(base / "savepoint"), local_session(World())
    told = restore_savepoint(place, after.spec, after.where, session=session, engine=LocalEngine)
    assert told.not_rolled_back == ("screen",), "it may be the same one, also where it counts as new"
    add(base, a=3)
    run_locally(after, base / "in")


@pytest.mark.parametrize("count", range(len(NAMES) + 1))
@pytest.mark.parametrize("chained", [False, True])
def test_each_new_output_is_complete_or_the_restore_is_refused(tmp_path: Path, count: int, chained: bool) -> None:
    for number, names in enumerate(itertools.combinations(NAMES, count)):
        base, new = tmp_path / str(number), frozenset(names)
        if new and (chained or count < len(NAMES)):
            with pytest.raises(InvalidJobError, match=f"output '{names[0]}' is new, and step 'aggregate_1' has other "):
                restored(base, new, chained=chained)
            assert not (base / "after" / "manifests").exists()
        else:
            restored(base, new, chained=chained)
            assert totals(base, new) == dict.fromkeys(NAMES, TOTALS)
