"""Publishing an epoch to a table, rows a second: into an empty one, as a backlog does, and over rows that are there."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mixedmode.checkpoint.types import Epoch, Generation, StagedFile
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.connectors.sqlite.table import SqliteTable
from mixedmode.errors import RetryableError
from mixedmode.sinks.files import OutputWriter
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables.database import Shape
from mixedmode.sinks.tables.table_sink import TableSink
from mixedmode_services.postgres import PostgresServer, find_binaries
from tests.services.fixtures import open_folder
from tests.tables.places import Place

ROWS, SUBTASKS, ROUNDS = 200_000, 2, 3
BATCH_ROWS = 65_536  # as the sink cuts an epoch
HISTORY_RATIO_MAX = 2.4  # one statement per key took 3 times as long as no history
FIELDS = [
    pa.field("customer", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("orders", pa.int64()),
    pa.field("total", pa.decimal128(18, 2)),
    pa.field("mean", pa.float64()),
    pa.field("latest", pa.timestamp("us", "UTC")),
]

pytestmark = pytest.mark.benchmark(group=f"an epoch of {ROWS} rows to a table")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        find_binaries()
    except RetryableError as error:
        pytest.skip(str(error))
    with open_folder() as folder, PostgresServer(folder) as server:
        yield server


@pytest.mark.parametrize("into", ["empty", "full"])
def test_postgres(benchmark: BenchmarkFixture, server: PostgresServer, tmp_path: Path, into: str) -> None:
    _measure(benchmark, Place("postgres", tmp_path, server.url()), into)


@pytest.mark.parametrize("into", ["empty", "full"])
def test_sqlite(benchmark: BenchmarkFixture, tmp_path: Path, into: str) -> None:
    _measure(benchmark, Place("sqlite", tmp_path), into)


def test_the_cost_of_going_back_in_sqlite(tmp_path: Path) -> None:
    """Processor time of an epoch that updates every row, with the replaced rows saved and without: prints the ratio."""
    keys = np.random.default_rng(0).permutation(ROWS)
    seconds = {
        saves: _seconds_of_updates(tmp_path / f"{saves}.db", _rows(keys), saves=saves) for saves in (False, True)
    }
    ratio = seconds[True] / seconds[False]
    print(f"an epoch of {ROWS} updates: {seconds[False]:.2f} s, with history {seconds[True]:.2f} s: {ratio:.1f} times")
    assert ratio < HISTORY_RATIO_MAX


def _seconds_of_updates(file: Path, rows: pa.Table, *, saves: bool) -> float:
    shape, found = Shape(tuple(FIELDS), ("customer",)), []
    table = SqliteTable(str(file), "totals", "bench")
    with table.transaction(creates=True) as transaction:
        transaction.create(shape)
        for statement in transaction.history_ddl(shape):
            transaction.execute(statement)
        transaction.begin(shape, saves=None)
        transaction.apply(rows)
    for epoch in range(ROUNDS):
        started = time.process_time()
        with table.transaction() as transaction:
            transaction.begin(shape, saves=Epoch(epoch) if saves else None)
            for begin in range(0, ROWS, BATCH_ROWS):
                transaction.apply(rows.slice(begin, BATCH_ROWS))
        found.append(time.process_time() - started)
    return min(found)


def _measure(benchmark: BenchmarkFixture, place: Place, into: str) -> None:
    tables = iter(range(ROUNDS))

    published: list[TableSink] = []

    def prepare() -> tuple[tuple[TableSink, Epoch, list[StagedFile]], dict[str, object]]:
        name = f"{into}_{next(tables)}"
        folder = place.folder / name
        sink = TableSink(place.database(name), _context(folder), create=True)
        sink.prepare(FIELDS, ["customer"], is_fresh=True)
        if into == "full":
            sink.publish(Epoch(0), _staged(sink, Epoch(0), folder))
        published.append(sink)
        return (sink, Epoch(1), _staged(sink, Epoch(1), folder)), {}

    run: Callable[..., object] = benchmark.pedantic
    run(lambda sink, epoch, files: sink.publish(epoch, files), setup=prepare, rounds=ROUNDS)
    assert [sink.newest_published() for sink in published] == [Epoch(1)] * ROUNDS
    for number in range(ROUNDS):
        assert place.sql(f"SELECT count(*) FROM {into}_{number}") == [(ROWS,)]
    assert benchmark.stats is not None
    print(f"{ROWS / benchmark.stats.stats.median:,.0f} rows a second")


def _context(folder: Path) -> SinkContext:
    base = str(folder)
    return SinkContext("bench", "", Generation(1), base, replaces=False, session=None, show=lambda *_: None)  # type: ignore[arg-type]  # tables ask for no session


def _staged(sink: TableSink, epoch: Epoch, folder: Path) -> list[StagedFile]:
    files: list[StagedFile] = []
    for subtask in range(SUBTASKS):
        keys = np.random.default_rng(subtask).permutation(ROWS // SUBTASKS) * SUBTASKS + subtask
        local = folder / f"subtask {subtask}"
        local.mkdir(exist_ok=True)
        with Uploads() as uploads:
            writer = OutputWriter(sink.task, epoch, subtask, local, uploads, f"e{epoch}s{subtask}")
            writer.write(_rows(keys))
            files += writer.finish()
    return files


def _rows(keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    numbers = pa.array(keys)
    columns = [
        numbers,
        pa.array([f"customer {key}" for key in keys]),
        pa.array(keys % 100),
        numbers.cast(pa.decimal128(21, 2)).cast(pa.decimal128(18, 2)),
        pa.array(keys / 7),
        pa.array(keys * 1_000_003, pa.timestamp("us", "UTC")),
        pa.array(["upsert"] * len(keys)),
    ]
    return pa.table(columns, schema=pa.schema([*FIELDS, pa.field("_op", pa.string())]))
