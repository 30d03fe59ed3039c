"""Rows in memory: sorted as Python sorts them, in whatever tables they come."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.sort.buffer import Buffer
from tests.sort.keyed_tables import keyed_tables, python_sorted


@given(keyed_tables(), st.lists(st.integers(0, 40), max_size=6), st.sampled_from([1, 200, 10_000]), st.integers(-1, 6))
def test_rows_are_sorted_whether_their_tables_are_joined_or_apart(
    table: pa.Table, cuts: list[int], piece_bytes: int, joins_after: int
) -> None:
    buffer, start = Buffer(piece_bytes), 0
    for number, end in enumerate([*sorted(cuts), table.num_rows]):
        if number == joins_after:
            buffer.join_to_pieces()
        buffer.append(table.slice(start, max(0, end - start)))
        start = max(start, end)
    assert buffer.rows == table.num_rows
    found = list(buffer.sorted_blocks(100))
    assert [row for block in found for row in block.to_pylist()] == python_sorted(table)
    if found:
        assert (buffer.rows, buffer.bytes, list(buffer.drain())) == (0, 0, [])


SCRIPT = """
from pathlib import Path

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.sort.buffer import Buffer


def peak_bytes():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def received(rows, rng):
    column = pa.array(rng.integers(0, 2**40, rows))
    keys = encode_keys([column], KeySchema((pa.field("k", pa.int64()),)))
    columns = {"_key_group": pa.array(key_groups(keys, max_parallelism=128)), "_key": keys}
    columns |= {f"column{number}": pa.array(rng.integers(0, 100, rows)) for number in range(20)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.table(columns).schema) as stream:
        stream.write_table(pa.table(columns))
    return pa.ipc.open_stream(sink.getvalue().to_pybytes()).read_all()  # its columns share memory


def fill(buffer, tables, rng):
    for _ in range(tables):
        buffer.append(received(5_000, rng))


pa.set_cpu_count(1)
rng = np.random.default_rng(1)
warm = Buffer(2**22)
fill(warm, 8, rng)
list(warm.sorted_blocks(2**20))
before = peak_bytes()
buffer = Buffer(2**22)
fill(buffer, 60, rng)
buffer.join_to_pieces()
fill(buffer, 60, rng)
promised, size = buffer.peak_bytes(received(0, rng)), buffer.bytes
for block in buffer.sorted_blocks(2**20):
    pass
print(size, promised, peak_bytes() - before)
"""
SLACK_BYTES = 24 * 2**20  # what malloc keeps of freed arrays, and a table on its way


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of one process from /proc")
def test_sorting_pieces_takes_no_second_copy_of_all_rows() -> None:
    of_workers = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=of_workers, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    size, promised, grown = map(int, done.stdout.split())
    assert promised <= 1.4 * size
    assert grown < promised + SLACK_BYTES, f"size={size}, promised={promised}, grown={grown}"
