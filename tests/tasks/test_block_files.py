"""Blocks in files: a subtask gets the same blocks as without, and damage is never a wrong answer."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bench.micro.stages import count_and_sum, input_batches, map_side
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.executor import held_blocks
from mixedmode.job import Job, Sink, Source
from mixedmode.profile import Profile
from mixedmode.tasks.block_files import BLOCK_BYTES_MIN, BlockReader, in_files
from mixedmode.tasks.block_rows import BlockKind, block_batch
from tests.harness import output_rows, run, write_parquet
from tests.random_cases import random_cases

Block = tuple[int, str, bytes]

blocks = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(BlockKind).filter(lambda kind: kind is not BlockKind.PLACE),
        st.sampled_from([0, 1, BLOCK_BYTES_MIN - 1, BLOCK_BYTES_MIN, BLOCK_BYTES_MIN + 1]),
    ),
    max_size=8,
)


def moved(rows: Sequence[pa.RecordBatch]) -> list[Block]:
    """The rows that Spark moves: (subtask, kind, block)."""
    return [tuple(column[0].as_py() for column in row.columns) for row in rows]


def received(rows: Sequence[Block]) -> list[Block]:
    """The blocks that subtasks get of these rows."""
    found = []
    with ExitStack() as opened:
        reader = BlockReader(opened)
        for subtask, kind, block in rows:
            if kind == BlockKind.PLACE:
                was, data = reader.read(block)
                found.append((subtask, was.value, data.to_pybytes()))
            else:
                found.append((subtask, kind, block))
    return found


@settings(max_examples=random_cases(100))
@given(blocks)
def test_subtasks_get_the_same_blocks(tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    given_ = [(to, kind.value, bytes([n + 1]) * size) for n, (to, kind, size) in enumerate(drawn)]
    batches = [block_batch(to, BlockKind(kind), block) for to, kind, block in given_]
    rows = moved(list(in_files(iter(batches), str(folder), Profile())))
    assert received(rows) == given_
    in_file = [len(block) >= BLOCK_BYTES_MIN for _, _, block in given_]
    assert [kind == BlockKind.PLACE for _, kind, _ in rows] == in_file
    assert sum(file.stat().st_size for file in folder.iterdir()) == sum(
        len(block) for (_, _, block), is_in_file in zip(given_, in_file, strict=True) if is_in_file
    )


def test_a_map_side_yields_places_of_the_blocks_that_it_yields_without_a_folder(tmp_path: Path) -> None:
    side = map_side(count_and_sum(), parallelism=2, slice_bytes=2**26)
    batches = input_batches(rows=100_000, rows_per_batch=50_000, keys=50_000)
    without, within = (
        moved(list(replace(side, blocks_folder=folder)(iter(batches)))) for folder in (None, str(tmp_path))
    )
    assert sum(kind == BlockKind.PLACE for _, kind, _ in within) >= 2
    assert _without_seconds(received(within)) == _without_seconds(without)


def _without_seconds(found: list[Block]) -> list[Block]:
    return [one for one in found if one[1] != BlockKind.PROFILE]


@pytest.fixture
def place(tmp_path: Path) -> bytes:
    """The place of a block in a file."""
    batch = block_batch(0, BlockKind.ROWS, b"a" * BLOCK_BYTES_MIN)
    ((_, _, place),) = moved(list(in_files(iter([batch]), str(tmp_path), Profile())))
    return place


@pytest.mark.parametrize("damage", ["a changed byte", "cut off", "removed"])
def test_damage_is_an_error(place: bytes, damage: str) -> None:
    file = Path(json.loads(place)[1])
    data = file.read_bytes()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(data[:-1] if damage == "cut off" else b"b" + data[1:])
    damaged = pytest.raises(CorruptStateError, match="on their way to their subtask is damaged")
    with ExitStack() as opened, damaged:
        BlockReader(opened).read(place)


def test_a_disk_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    batch = block_batch(0, BlockKind.ROWS, b"a" * BLOCK_BYTES_MIN)
    with pytest.raises(RetryableError, match=r"set TMPDIR to another disk.*No such file or directory"):
        list(in_files(iter([batch]), str(tmp_path / "gone"), Profile()))


@pytest.mark.spark
def test_an_embedded_spark_moves_places_and_the_files_are_gone_after_the_epoch(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    @contextmanager
    def watched(prefix: str) -> Any:
        with temporary_folder(prefix) as folder:
            yield folder
            used.append(sum(file.stat().st_size for file in folder.glob("*.blocks")))
        assert not folder.exists()

    monkeypatch.setattr(held_blocks, "temporary_folder", watched)
    keys = np.arange(50_000) % 40_000
    write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": keys, "n": keys + 1}))
    # only Spark computes the hash, so that the rows come from Spark and are not read in a single stage
    job = Job("blocks", sources={"t": Source.parquet(tmp_path / "in", bounded=True)}, mode="batch", parallelism=2)
    job = job.sql("SELECT k, n, hash(k) AS h FROM t").key_by("k").aggregate(total="sum(n)", many="count(h)")
    run(job.write(Sink.parquet(tmp_path / "out")), spark)
    assert sum(used) >= 2 * BLOCK_BYTES_MIN
    rows = {(row["k"], row["total"], row["many"]) for row in output_rows(tmp_path / "out")}
    assert rows == {(k, (k + 1) * (2 if k < 10_000 else 1), 2 if k < 10_000 else 1) for k in range(40_000)}
