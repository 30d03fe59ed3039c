"""Run files: what is read is what was written, and damage is named instead of read."""

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.sort import read_run, write_run
from tests.sort.keyed_tables import keyed_table, keyed_tables, rows_of


@given(table=keyed_tables(), block_bytes=st.integers(1, 2000))
def test_a_run_reads_back_exactly_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, block_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "a.run"
    run = write_run(path, [table], block_bytes=block_bytes)
    blocks = list(read_run(path))
    assert rows_of(blocks) == table.to_pylist()
    assert (run.path, run.rows, run.file_bytes) == (path, table.num_rows, path.stat().st_size)
    assert all(block.schema == table.schema for block in blocks), "types and names come back"
    assert all(block.num_rows == 1 or block.nbytes <= 3 * block_bytes for block in blocks), "blocks are bounded"


def _run(path: Path) -> Path:
    rows = [(0, n.to_bytes(9, "big"), n) for n in range(600)]
    write_run(path, [keyed_table(rows, pa.binary(9))], block_bytes=4_000)
    return path


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def _without_first_block(data: bytes) -> bytes:
    return data[:6] + data[6 + 16 + int.from_bytes(data[6:14], "big") :]


@pytest.mark.parametrize(
    ("damage", "rows", "reason"),
    [
        (lambda _: b"", 0, "it does not begin as a run of this version"),
        (lambda data: _flip(data, 5), 0, "it does not begin as a run of this version"),
        (lambda data: _flip(data, 6), 0, "a block is cut off or its checksum differs"),
        (lambda data: _flip(data, 500), 0, "a block is cut off or its checksum differs"),
        (lambda data: data[:40], 0, "a block is cut off or its checksum differs"),
        (lambda data: data[:-16], 600, "it ends before its end mark"),
        (lambda data: data[:-1], 600, "it ends before its end mark"),
        (lambda data: _flip(data, len(data) - 1), 600, "its end mark counts 536 rows"),
        (_without_first_block, 481, "its end mark counts 600 rows"),
    ],
)
def test_a_damaged_run_is_refused_with_its_path_and_the_reason(
    tmp_path: Path, damage: Callable[[bytes], bytes], rows: int, reason: str
) -> None:
    path = _run(tmp_path / "000003.run")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptStateError) as caught:
        list(read_run(path))
    assert str(caught.value) == (
        "a sorted run that this sort spilled to local disk is damaged, so the sort cannot go on. Nothing is committed. "
        "Check the disk, then start again; a job resumes from its last checkpoint. "
        f"path={path}, rows_read={rows}, reason={reason}"
    )


def test_any_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    write_run(path, [keyed_table([(0, b"k", n) for n in range(3)], pa.binary(1))], block_bytes=10_000)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(_flip(whole, at))
        with pytest.raises(CorruptStateError):
            list(read_run(path))


def test_a_run_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptStateError, match=r"rows_read=0, reason=it cannot be read$"):
        list(read_run(tmp_path / "gone.run"))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSPC, "no space is left on the disk"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EDQUOT, "the quota of this user is used up, though the disk may have space"),
    ],
)
def test_a_disk_that_cannot_take_the_run_is_retryable(tmp_path: Path, number: int, why: str) -> None:
    def fail(_: pa.Table) -> pa.Table:
        raise OSError(number, os.strerror(number))

    path, tables = tmp_path / "a.run", [keyed_table([(0, b"k", 0)], pa.binary(1))]
    with pytest.raises(RetryableError) as caught:
        write_run(path, map(fail, tables), block_bytes=100)
    told = str(caught.value)
    assert told.startswith(
        f"what exceeds the memory of a sort cannot be written to the folder for temporary files: {why}. "
    )
    assert "set TMPDIR to another disk, or raise `state.backlog.sort-memory`; then start again; a job resumes" in told
    assert told.endswith(f"path={path}, written_bytes=22, cause=[Errno {number}] {os.strerror(number)}")
    assert str(pickle.loads(pickle.dumps(caught.value))) == told, "Spark ships errors between processes"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_really_full_disk_is_retryable() -> None:
    table = keyed_table([(0, b"k", 0)], pa.binary(1))
    with pytest.raises(RetryableError, match=r": no space is left on the disk\. .*path=/dev/full, "):
        write_run(Path("/dev/full"), [table], block_bytes=100)
