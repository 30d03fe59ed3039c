"""A job without Spark: real folders, in which each epoch leaves what an epoch leaves, and ways to damage them.

Spark's part is written as Spark writes it, with Hadoop's checksum beside each file, and each epoch has one new file.
"""

import shutil
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.log import CheckpointLog, Committed
from mixedmode.checkpoint.source_log import log_of
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest, OperatorState, RunFile, SourceLog, StagedFile
from mixedmode.connectors.files.sink import FileSink
from mixedmode.sinks import OutputSchema, Sinks
from tests.checkpoint.examples import a_manifest, a_run, a_staged

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}'
RUNS_HELD = 3  # a checkpoint names the runs of so many epochs
COMPACT_EVERY = 4

How = Literal["cut", "flipped", "gone"]


def offsets_of(epoch: int) -> str:
    """Spark's entry for an epoch in which the source had one more file, as in each before it."""
    return f'{HEAD[:-1]},"epoch":{epoch}}}\n{{"logOffset":{epoch}}}'


def hadoop_checksum(data: bytes, step: int = 512) -> bytes:
    """The content of `.<name>.crc` beside a file with these bytes."""
    sums = [zlib.crc32(data[start : start + step]) for start in range(0, len(data), step)]
    return b"crc\0" + struct.pack(f">I{len(sums)}I", step, *sums)


@dataclass
class FakeJob:
    """`epochs` of it are committed. All it writes is a function of the epoch and of the start that wrote it."""

    folder: Path
    epochs: int = 0
    generation: Generation = field(init=False)

    def __post_init__(self) -> None:
        self.log = CheckpointLog(ObjectStore(self.folder / "checkpoints"))
        self.sinks = Sinks({"": FileSink("airport-delays", str(self.folder / "out"), "parquet", replaces=False)})
        self.generation = self.log.claim_generation()
        known = ("",) if self.log.epochs() else ()
        self.sinks.prepare({"": OutputSchema((pa.field("n", pa.int64()),))}, known=known)
        for _ in range(self.epochs):
            self.run_epoch()

    def copied(self, folder: Path) -> "FakeJob":
        """Another start of this job, over a copy of its folder."""
        shutil.copytree(self.folder, folder)
        return FakeJob(folder)

    @property
    def newest(self) -> int:
        """The newest epoch that has a manifest, -1 if there is none."""
        return max(self.log.epochs(), default=-1)

    def start_again(self) -> None:
        """Another start of the same job, from which on this object speaks."""
        self.generation = self.log.claim_generation()

    def run_epoch(self) -> Manifest:
        """The next epoch, from Spark's entry to Spark's commit."""
        epoch = self.newest + 1
        self.begin(epoch)
        manifest = self.manifest(epoch)
        outcome = self.log.commit(manifest, CommitPermit(manifest.epoch, self.generation))
        assert isinstance(outcome, Committed), outcome
        self.sinks.publish(manifest.epoch, manifest.outputs)
        self.write_spark(paths.spark_commits_path(Epoch(epoch)), 'v1\n{"nextBatchWatermarkMs":0}')
        return manifest

    def begin(self, epoch: int) -> None:
        """Write the files that Spark writes before it hands an epoch over."""
        if epoch == 0:
            self.write_spark(paths.SPARK_METADATA, '{"id":"0"}')
        self.write_spark(source_path(epoch), source_text(epoch))
        self.write_spark(paths.spark_offsets_path(Epoch(epoch)), offsets_of(epoch))

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch whose run and output are stored and staged now."""
        unique = paths.attempt(self.generation, "a")
        run = self._stored(a_run(epoch, unique=unique))
        before = self.log.get(Epoch(epoch - 1)) if epoch else None
        runs = (*(before.operators[0].runs if before else ()), run)[-RUNS_HELD:]
        staged = self._staged(a_staged(epoch, unique=unique))
        manifest = a_manifest(epoch, generation=self.generation, runs=runs, outputs=[staged])
        operators = (OperatorState("step-1", manifest.operators[0].state_schema, runs, parallelism=2),)
        return replace(manifest, operators=operators, offsets=offsets_of(epoch), source_logs=(source_log(epoch),))

    def write_spark(self, path: str, text: str) -> None:
        """A file of Spark's log with its checksum."""
        self.log.store.put(path, text.encode())
        self.log.store.put(paths.spark_checksum_path(path), hadoop_checksum(text.encode()))

    def path(self, what: str, epoch: int) -> Path:
        """The file of an epoch: "manifest", "run", "output", "source", "offsets", "commits", "metadata"."""
        if what in {"run", "output"}:
            manifest = self.log.get(Epoch(epoch))
            assert manifest is not None, epoch
            if what == "output":
                return self.folder / "out" / manifest.outputs[0].final_path
            return self.folder / "checkpoints" / manifest.operators[0].runs[-1].path
        names = {
            "manifest": paths.manifest_path(Epoch(epoch)),
            "source": source_path(epoch),
            "offsets": paths.spark_offsets_path(Epoch(epoch)),
            "commits": paths.spark_commits_path(Epoch(epoch)),
            "metadata": paths.SPARK_METADATA,
        }
        return self.folder / "checkpoints" / names[what]

    def contents(self, *, without: tuple[str, ...] = (paths.GENERATIONS, paths.GOINGS_BACK)) -> Mapping[str, bytes]:
        """{name: bytes} of all files, but for those that tell of starts."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and not name.startswith(tuple(f"checkpoints/{folder}/" for folder in without)):
                found[name] = path.read_bytes()
        return found

    def _stored(self, run: RunFile) -> RunFile:
        data = f"state {run.path}".encode() * 3
        self.log.store.put(run.path, data)
        return replace(run, bytes=len(data), checksum=checksum_of([data]))

    def _staged(self, file: StagedFile) -> StagedFile:
        data = f"rows {file.staged_path}".encode() * 2
        self.sinks.by_name[""].store.put(file.staged_path, data)
        return replace(file, bytes=len(data), checksum=checksum_of([data]))


def source_files(epoch: int) -> list[str]:
    """The lines of the files that the source has found since the epoch before."""
    return [
        f'{{"path":"file:///in/{epoch}-{number}.json","timestamp":{epoch},"batchId":{epoch}}}'
        for number in range(epoch % 3 + 1)
    ]


def source_text(epoch: int) -> str:
    """The source's entry of an epoch."""
    is_compact = epoch % COMPACT_EVERY == COMPACT_EVERY - 1
    return "\n".join(
        ["v1", *(line for one in range(0 if is_compact else epoch, epoch + 1) for line in source_files(one))]
    )


def source_log(epoch: int) -> SourceLog:
    """Return the source's log as the manifest of an epoch records it."""
    return log_of(("\n".join(["v1", *source_files(one)]).encode() for one in range(epoch + 1)), 0, epoch)


def source_path(epoch: int) -> str:
    """The source's entry in FakeJob."""
    return paths.spark_source_path(0, epoch, is_compact=epoch % COMPACT_EVERY == COMPACT_EVERY - 1)


def damage(path: Path, how: How, *, where: int = 7) -> None:
    """Cut a file short, flip one bit of it, or delete it. A file that is linked elsewhere is not touched there."""
    data = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(data[: where % len(data)])
    elif how == "flipped":
        flipped = bytearray(data)
        flipped[where % len(data)] ^= 1 << (where % 8)
        path.write_bytes(bytes(flipped))
