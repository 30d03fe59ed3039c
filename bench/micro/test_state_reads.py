"""State of 100,000 keys: columns, point reads and range scans of RocksDB, and how fast runs are written and taken over.

`KEYS_WORTH_A_SEARCH` comes from here: with more keys, columns are searched faster than RocksDB reads points. So does
`ENTRIES_SCANNED_PER_POINT_READ`: both plans cost the same where keys wanted times it are keys stored. And so does
`ENTRIES_WALKED_BEFORE_SEEK`: 0 seeks every prefix, and 64 walks all the way to it.
"""

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.stages import KEY_SCHEMA, MAX_PARALLELISM, count_and_sum
from mixedmode.keys import encode_keys, key_groups
from mixedmode.state import RowCodec
from mixedmode.state.arrow_bytes import array_of
from mixedmode.state.keys import stored_keys
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb import backend as backend_module
from mixedmode.state.rocksdb.replica import WantedRun, columns_of

KEYS = 100_000
DELTAS = 4  # runs of live epochs over the backlog's, a twentieth of the keys each
COLUMNS_BYTES = 8 * 2**20  # enough for all of them
FRACTIONS = [1, 2, 4, 16, 256]  # one key in so many is wanted

#: entries per key group, as an estimate that makes the backend take the one plan or the other for keys not in columns
_PLANS = {"columns": {0: 1e12}, "points": {0: 1e12}, "scan": {0: 0.0}}

pytestmark = pytest.mark.benchmark(min_rounds=3, max_time=0.3)


@pytest.fixture(scope="module")
def entries() -> dict[bytes, bytes]:
    """The state of count and sum for every key, in stored order."""
    stage = count_and_sum()
    encoded = encode_keys([pa.array(np.arange(KEYS))], KEY_SCHEMA)
    keys = stored_keys(key_groups(encoded, max_parallelism=MAX_PARALLELISM), encoded, 0)
    (descriptor,) = stage.operator.states
    columns = [pa.array(np.arange(KEYS)).cast(field.type) for field in descriptor.fields]
    values = RowCodec(descriptor.fields).pack(columns)
    in_order = sorted(zip(keys, values, strict=True))
    # New objects, which lie beside each other in memory, as those of an operator do.
    return {bytes(bytearray(key)): bytes(bytearray(value)) for key, value in in_order}


@pytest.fixture(scope="module")
def runs(entries: dict[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> list[WantedRun]:
    """The backlog's run, and small ones over it."""
    folder, keys = tmp_path_factory.mktemp("runs"), list(entries)
    written = [_write(folder / "backlog", keys, list(entries.values()))]
    for number in range(DELTAS):
        some = keys[number::20]
        written.append(_write(folder / f"delta-{number}", some, [entries[key] for key in some]))
    return [WantedRun(str(run.path), partial(os.link, run.path)) for run in written]


@pytest.fixture(scope="module", params=_PLANS)
def backend(
    request: pytest.FixtureRequest, runs: list[WantedRun], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RocksDBBackend]:
    """A backend that reads in one of the ways."""
    folder = tmp_path_factory.mktemp("replica")
    if request.param == "columns":
        for run in runs:
            copy = shutil.copy(Path(run.name).with_suffix(".columns"), folder / "columns")
            columns_of(folder / "r").keep(run.name, Path(copy))
    with open_replica(folder / "r", runs, attempt="a") as replica, RunWriter(folder / "new") as writer:
        yield RocksDBBackend(replica, writer, _PLANS[request.param])


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_read(benchmark: BenchmarkFixture, backend: RocksDBBackend, entries: dict[bytes, bytes], fraction: int) -> None:
    benchmark.group = f"state of {KEYS:,} keys, one in {fraction} read"
    keys = list(entries)[::fraction]
    values = benchmark(backend.read, 0, keys)
    assert values == [entries[key] for key in keys]


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("walked", [0, backend_module.ENTRIES_WALKED_BEFORE_SEEK, 64])
def test_scan_prefixes(
    benchmark: BenchmarkFixture,
    runs: list[WantedRun],
    entries: dict[bytes, bytes],
    fraction: int,
    walked: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    benchmark.group = f"state of {KEYS:,} keys, one in {fraction} as a prefix"
    monkeypatch.setattr(backend_module, "ENTRIES_WALKED_BEFORE_SEEK", walked)
    keys = list(entries)[::fraction]
    with open_replica(tmp_path / "r", runs, attempt="a") as replica, RunWriter(tmp_path / "new") as writer:
        found = benchmark(RocksDBBackend(replica, writer, {}).scan_prefixes, 0, keys)
    assert found.keys == keys


@pytest.mark.benchmark(group=f"runs, {KEYS:,} pairs")
@pytest.mark.parametrize("columns_bytes", [0, COLUMNS_BYTES], ids=["without columns", "with columns"])
def test_write_run(
    benchmark: BenchmarkFixture, entries: dict[bytes, bytes], tmp_path: Path, columns_bytes: int
) -> None:
    keys, values = array_of(list(entries)), array_of(list(entries.values()))  # as operators have them
    numbers = itertools.count()
    run = benchmark(lambda: _write(tmp_path / str(next(numbers)), keys, values, columns_bytes=columns_bytes))
    assert run.entries == KEYS
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.extra_info["pairs_per_second"] = round(KEYS / benchmark.stats.stats.median)


@pytest.mark.benchmark(group=f"runs, {KEYS:,} pairs")
def test_take_over_runs(benchmark: BenchmarkFixture, runs: list[WantedRun], tmp_path: Path) -> None:
    numbers = itertools.count()
    benchmark(lambda: open_replica(tmp_path / str(next(numbers)), runs, attempt="a").close())


def _write(
    folder: Path, keys: Sequence[bytes], values: Sequence[bytes], *, columns_bytes: int = COLUMNS_BYTES
) -> LocalRun:
    with RunWriter(folder, columns_bytes=columns_bytes) as writer:
        writer.write(0, keys, values)
        (run,) = writer.finish()
    return run
