"""A driver that dies around the commit of an epoch with calls: calls repeat, rows and remembered answers do not.

The service answers a request differently each time, so an answer that was asked for again would show.
"""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.crash_points import CrashPoint
from mixedmode.job import Job, Sink, Source
from mixedmode.queryable import read_state
from tests.harness import output_rows, run
from tests.local_engine import TIMED, LocalEngine, World, local_session
from tests.operators.async_map.services import Service
from tests.walk.faults import Faults, KillAtPoint, Killed


def rows(*keys: str) -> pa.Table:
    return pa.Table.from_pylist([{"k": key, "v": number, "at": number} for number, key in enumerate(keys)], TIMED)


def job_of(folder: Path, book: int, parallelism: int = 2) -> Job:
    source = Source.parquet(folder / "in", schema="k string, v bigint, at timestamp", event_time="at")
    empty = Job("asking", sources={"s": source}, mode="mixed", parallelism=parallelism, checkpoint_dir=folder / "c")
    asked = empty.key_by("k", name="asked").async_map(
        Service, output="upper string, nth bigint", args={"book": book}, batch_size=2, remember="30d"
    )
    return asked.write(Sink.parquet(folder / "out"))


#: (where the driver dies, how often the requests of that epoch are sent)
POINTS: list[tuple[CrashPoint, int]] = [("before-manifest", 2), ("after-manifest", 1), ("after-publish", 1)]


@pytest.mark.parametrize(("point", "times"), POINTS)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_killed_epoch_repeats_its_calls_with_the_same_keys_and_emits_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: CrashPoint, times: int, epoch: int
) -> None:
    (tmp_path / "in").mkdir()
    number, world, faults = Service.new_book(), World(), Faults()
    book, session = Service.books[number], local_session(world)
    files = [rows("a", "b", "a"), rows("b", "c", "a")]
    for at in range(epoch):
        world.files[f"{at}.parquet"] = files[at]
        run(job_of(tmp_path, number), session, engine=LocalEngine)
    world.files[f"{epoch}.parquet"] = files[epoch]
    with monkeypatch.context() as patch:
        faults.install(patch)
        with faults.armed(KillAtPoint(point, epoch)), pytest.raises(Killed):
            run(job_of(tmp_path, number), session, engine=LocalEngine)
    run(job_of(tmp_path, number, parallelism=3), session, engine=LocalEngine)
    if not epoch:
        world.files["1.parquet"] = files[1]
        run(job_of(tmp_path, number), session, engine=LocalEngine)

    new = {0: {"a", "b"}, 1: {"c"}}
    expected = {key: times if key in new[epoch] else 1 for key in "abc"}
    assert book.sent == expected, "a committed answer is not asked for again"
    assert all(len(keys) == 1 for keys in book.idempotency_keys.values())
    found = output_rows(tmp_path / "out")
    assert Counter((row["k"], row["v"]) for row in found) == Counter(
        (row["k"], row["v"]) for file in files for row in file.to_pylist()
    )
    answers = {row["k"]: row["nth"] for row in read_state(str(tmp_path / "c"), "asked").to_pylist()}
    assert answers == expected, "the answer of the attempt that was committed"
    assert all(row["nth"] == answers[row["k"]] for row in found), "rows have the answer that is remembered"
