"""One input, told to a job in every mode: pieces arrive in order, and the job starts once the first `flip` are there.

What comes out is checked epoch by epoch. `fold` replays the rows of an output the way a reader would, in
plain Python, and refuses an insert of a key that is there or an update of one that is not.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import settings as settings_of_cases
from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.job import Job, Sink
from tests.differential.oracle import Row, Table, key_of
from tests.harness import SPARK, SPARK_CASES, Recording, output_changes, run, write_parquet
from tests.local_engine import LocalEngine, World, local_session
from tests.random_cases import random_cases

#: how many random cases a test has on the local executor whose part is 1. All of them have more than 2,000, and five
#: times as many in `make soak`
LOCAL_CASES = random_cases(400)

Mode = Literal["batch", "streaming", "mixed"]
MODES: tuple[Mode, ...] = ("batch", "streaming", "mixed")


@dataclass(frozen=True)
class ParquetPiece:
    """A file that arrives."""

    name: str
    table: pa.Table

    def __call__(self, folder: Path) -> None:
        """Write the file into the folder that the job reads."""
        write_parquet(folder, f"{self.name}.parquet", self.table)


#: what arrives: writes one file into the folder that the job reads. Without Spark, each is a ParquetPiece
Piece = Callable[[Path], object]
#: the source of a job over a folder; more arguments as those of Source.parquet
MakeSource = Callable[..., SourceSpec]
#: adds the steps to a job
Steps = Callable[[Job], Job]


@dataclass(frozen=True)
class Story:
    """Pieces in the order in which they arrive, and how many of them are history."""

    pieces: Sequence[Piece]
    flip: int
    source: MakeSource


@dataclass(frozen=True)
class Outcome:
    """The folders of a run, and its recording."""

    out: Path
    checkpoints: Path
    recording: Recording


def play(story: Story, mode: Mode, steps: Steps, spark: SparkSession | None, base: Path, **settings: Any) -> Outcome:
    """Run a job over a story. Streaming takes one piece an epoch; batch starts when everything has arrived.

    spark: None for the local executor.
    """
    inputs, world = base / "in", World()
    inputs.mkdir(parents=True)
    is_batch = mode == "batch"
    flip = len(story.pieces) if is_batch else story.flip

    def arrive(piece: Piece) -> None:
        if spark is None:
            assert isinstance(piece, ParquetPiece), piece
            world.files[piece.name] = piece.table
        else:
            piece(inputs)

    for piece in story.pieces[:flip]:
        arrive(piece)
    more = {"bounded": True} if is_batch else {"max_files_per_epoch": 1} if mode == "streaming" else {}
    job = Job(
        "story",
        sources={"t": story.source(inputs, **more)},
        mode=mode,
        checkpoint_dir=None if is_batch else base / "checkpoints",
        spark=SPARK,
        **settings,
    )
    feed = [partial(arrive, piece) for piece in story.pieces[flip:]]
    job = steps(job).write(Sink.parquet(base / "out"))
    if spark is None:
        recording = run(job, local_session(world), feed=feed, engine=LocalEngine)
    else:
        recording = run(job, spark, feed=feed)
    return Outcome(base / "out", base / "checkpoints", recording)


def local_cases(part: float) -> settings_of_cases:
    """The settings of a test that has this part of the random cases on the local executor."""
    return settings_of_cases(SPARK_CASES, max_examples=max(1, int(LOCAL_CASES * part)))


@contextmanager
def case_folder() -> Iterator[Path]:
    """A folder for one case on the local executor, with its temporary files; in memory if the machine has such a place.

    No power is cut in these cases, so nothing has to be on a disk.
    """
    shared = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        (Path(folder) / "tmp").mkdir()
        patch.setattr(tempfile, "tempdir", f"{folder}/tmp")
        patch.setattr(os, "fsync", lambda _file: None)
        yield Path(folder)


def epochs_of(story: Story, mode: Mode) -> list[int]:
    """Return the number of pieces that each epoch of a run takes."""
    live = len(story.pieces) - story.flip
    match mode:
        case "batch":
            return [len(story.pieces)]
        case "streaming":
            return [1] * len(story.pieces)
        case "mixed":
            return ([story.flip] if story.flip else []) + [1] * live


def fold(changes: Iterable[Row], key_by: Sequence[str]) -> Table:
    """The table after these rows of an output, without `_op` and `_epoch`."""
    table: Table = {}
    seen = set()
    for row in changes:
        key, operation = key_of(row, key_by), row["_op"]
        assert (key, row["_epoch"]) not in seen, f"two rows in one epoch: {row}"
        seen.add((key, row["_epoch"]))
        assert (key in table) == (operation != "insert"), f"{operation} of a key that is there or is not: {row}"
        if operation == "delete":
            del table[key]
        else:
            table[key] = {name: value for name, value in row.items() if name not in {"_op", "_epoch"}}
    return table


def table_after(outcome: Outcome, epoch: int, key_by: Sequence[str]) -> Table:
    """The table as a reader sees it once `epoch` is published."""
    return fold((row for row in output_changes(outcome.out) if row["_epoch"] <= epoch), key_by)
