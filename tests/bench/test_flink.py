"""Flink as a contestant: its programs compile and give the answer. Both modes run the same ones."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode.errors import RetryableError
from mixedmode.job import Job
from mixedmode_bench import flink
from mixedmode_bench.contestant import Task
from mixedmode_bench.flink import FlinkBatch, FlinkStreaming
from mixedmode_bench.workload import Mode, Size, Workload

EVENTS, KEYS = 2_000, 60
WHY_NOT = FlinkBatch().missing()


def write(folder: Path, size: Size) -> None:
    (folder / "events").mkdir(parents=True)
    rng = np.random.default_rng(5)
    for number in range(2):
        keys = rng.integers(0, size.keys, size.events // 2)
        rows = {
            "k": keys,
            "v": rng.integers(0, 100, len(keys)) / 4,
            "word": [f"word-\N{MICRO SIGN}{key}" for key in keys],
        }
        pq.write_table(pa.table(rows), folder / "events" / f"part-{number}.parquet")


def write_two(folder: Path, size: Size) -> None:
    for table, seed in (("trades", 6), ("quotes", 7)):
        (folder / table).mkdir(parents=True)
        rng = np.random.default_rng(seed)
        rows = {"k": rng.integers(0, size.keys, 500), "seq": np.arange(500), "v": rng.integers(0, 100, 500) / 4}
        pq.write_table(pa.table(rows), folder / table / "part-0.parquet")


def no_job(_data: Path, _work: Path, _mode: Mode) -> Job:
    raise NotImplementedError


def workload(name: str, key: str, answer: str) -> Workload:
    return Workload(name, name, Size(EVENTS, KEYS), write, no_job, (key,), answer, flink=name)


COUNT_SUM = workload("count-sum", "k", "SELECT k, count(*) AS n, sum(v) AS total FROM events GROUP BY k")
WORD_COUNT = workload("word-count", "word", "SELECT word, count(*) AS n FROM events GROUP BY word")


@pytest.fixture
def contestant(tmp_path: Path) -> Iterator[FlinkStreaming]:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    made = FlinkStreaming()
    made.start(tmp_path / "scratch", cores=1)
    yield made
    made.close()


def test_both_programs_give_the_answer_and_a_failure_says_why(contestant: FlinkStreaming, tmp_path: Path) -> None:
    write(tmp_path / "data", Size(EVENTS, KEYS))
    events = pq.read_table(tmp_path / "data" / "events")
    counted: list[tuple[object, str]] = [([], "count_all")]
    for done, aggregates, names in (
        (COUNT_SUM, [*counted, ("v", "sum")], ["k", "n", "total"]),
        (WORD_COUNT, counted, ["word", "n"]),
    ):
        task = Task(done, done.size, tmp_path / "data", tmp_path / done.name)
        task.work.mkdir()
        contestant.prepare(task)
        assert contestant.run(task).seconds > 0
        (key,) = done.key
        expected = events.group_by(key).aggregate(aggregates).sort_by(key).rename_columns(names)
        assert contestant.answer(task).sort_by(key).to_pydict() == expected.to_pydict()
    gone = Task(COUNT_SUM, COUNT_SUM.size, tmp_path / "data", tmp_path / "no such folder")
    with pytest.raises(RetryableError, match="no such folder"):
        contestant.run(gone)


def test_the_join_gives_all_pairs(contestant: FlinkStreaming, tmp_path: Path) -> None:
    size = Size(500, 60)
    answer = "SELECT l.seq, r.seq AS other, l.k, l.v, r.v AS w FROM trades l JOIN quotes r ON l.k = r.k"
    join = Workload("regular", "", size, write_two, no_job, ("seq", "other"), answer, flink="regular-join")
    task = Task(join, size, tmp_path / "data", tmp_path / "work")
    write_two(task.data, size)
    task.work.mkdir()
    contestant.prepare(task)
    assert contestant.run(task).seconds > 0
    tables = [pq.read_table(tmp_path / "data" / name).to_pylist() for name in ("trades", "quotes")]
    oracle = [(a["seq"], b["seq"], a["k"], a["v"], b["v"]) for a in tables[0] for b in tables[1] if a["k"] == b["k"]]
    assert sorted(tuple(row.values()) for row in contestant.answer(task).to_pylist()) == sorted(oracle)


def test_it_takes_what_it_has_a_program_for() -> None:
    assert FlinkBatch().takes(COUNT_SUM)
    assert not FlinkBatch().takes(workload("windows", "k", "SELECT 1"))


def test_it_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flink, "_libraries", lambda: tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert FlinkBatch().missing() == (
        "javac: install a JDK, 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)"
    )
    monkeypatch.setattr(flink, "_libraries", lambda: None)
    assert FlinkStreaming().missing() == (
        "Flink's Java libraries, 350 MB: pip install apache-flink-libraries, or make bench-flink"
    )
