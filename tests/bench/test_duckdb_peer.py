"""DuckDB as a contestant: the answer's SQL, over the files of the tables, written as Parquet."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode.job import Job
from mixedmode_bench.contestant import Task
from mixedmode_bench.duckdb_peer import DuckDB
from mixedmode_bench.workload import Mode, Size, Workload


def write(folder: Path, _size: Size) -> None:
    for table, rows in (
        ("events", {"k": [1, 2, 1], "v": [0.5, 1.0, 0.25]}),
        ("names", {"k": [1, 2], "name": ["a", "b"]}),
    ):
        (folder / table).mkdir(parents=True)
        pq.write_table(pa.table(rows), folder / table / "part-0.parquet")


def no_job(_data: Path, _work: Path, _mode: Mode) -> Job:
    raise NotImplementedError


JOINED = Workload(
    name="joined",
    title="two tables",
    size=Size(3, 2),
    write=write,
    job=no_job,
    key=("name",),
    answer="SELECT name, count(*) AS n, sum(v) AS total FROM events JOIN names USING (k) GROUP BY name",
)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    data, work = tmp_path / "it's data", tmp_path / "it's work"  # a quote, which ends a literal of SQL
    write(data, JOINED.size)
    work.mkdir()
    return Task(JOINED, JOINED.size, data, work)


def test_it_gives_the_answer_of_the_workload_over_all_tables(task: Task, tmp_path: Path) -> None:
    duckdb = DuckDB()
    duckdb.start(tmp_path / "scratch", cores=1)
    duckdb.prepare(task)
    outcome = duckdb.run(task)
    answer = duckdb.answer(task).sort_by("name")
    duckdb.close()
    assert outcome.seconds > 0
    assert answer.column_names == ["name", "n", "total"]
    assert answer.to_pylist() == [{"name": "a", "n": 2, "total": 0.75}, {"name": "b", "n": 1, "total": 1.0}]


def test_a_workload_with_a_feed_is_not_for_one_that_keeps_no_state() -> None:
    assert DuckDB().takes(JOINED)
    assert not DuckDB().takes(replace(JOINED, feed=lambda _folder, _size: []))


def test_it_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DuckDB().missing() is None
    monkeypatch.setattr("mixedmode_bench.duckdb_peer.find_spec", lambda _name: None)
    assert DuckDB().missing() == "the package duckdb: pip install duckdb"
