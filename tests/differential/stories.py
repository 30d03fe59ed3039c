"""One input, told to a job in every mode: pieces arrive in order, and the job starts once the first `flip` are there.

What comes out is checked epoch by epoch. `fold` replays the rows of an output the way a reader would, in
plain Python, and refuses an insert of a key that is there or an update of one that is not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.job import Job, Sink
from tests.differential.oracle import Row, Table, key_of
from tests.harness import SPARK, Recording, output_changes, run

Mode = Literal["batch", "streaming", "mixed"]
MODES: tuple[Mode, ...] = ("batch", "streaming", "mixed")

#: what arrives: writes one file into the folder that the job reads
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
    """Where a run left what it did."""

    out: Path
    checkpoints: Path
    recording: Recording


def play(story: Story, mode: Mode, steps: Steps, spark: SparkSession, base: Path, **settings: Any) -> Outcome:
    """Run a job over a story. Streaming takes one piece an epoch; batch starts when everything has arrived."""
    inputs = base / "in"
    inputs.mkdir(parents=True)
    is_batch = mode == "batch"
    flip = len(story.pieces) if is_batch else story.flip
    for piece in story.pieces[:flip]:
        piece(inputs)
    more = {"bounded": True} if is_batch else {"max_files_per_epoch": 1} if mode == "streaming" else {}
    job = Job(
        "story",
        sources={"t": story.source(inputs, **more)},
        mode=mode,
        checkpoint_dir=None if is_batch else base / "checkpoints",
        spark=SPARK,
        **settings,
    )
    feed = [lambda piece=piece: piece(inputs) for piece in story.pieces[flip:]]
    recording = run(steps(job).write(Sink.parquet(base / "out")), spark, feed=feed)
    return Outcome(base / "out", base / "checkpoints", recording)


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
