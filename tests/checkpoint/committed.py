"""A checkpoint folder that grows epoch by epoch, with real files and no Spark: for tests of savepoints."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.gc import drop_checkpoint
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.manifest import encode_manifest
from mixedmode.checkpoint.source_log import log_of
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, JobIdentity, ListState, Manifest, OperatorState, RunFile, StagedFile
from tests.checkpoint.examples import a_manifest

IDENTITY = JobIdentity("orders", 128, {"totals": {"keys": ["k"]}, "top": {"keys": ["n"], "rows": []}})


def source_entry(epoch: int) -> bytes:
    """The entry of the source's log of an epoch, with one file."""
    return f'v1\n{{"path":"file:///in/{epoch}.json","timestamp":{epoch},"batchId":{epoch}}}'.encode()


class Checkpoints:
    """A folder in which epoch after epoch is committed: each has a run of its own, and shares those before it."""

    def __init__(self, folder: Path | str, identity: JobIdentity = IDENTITY) -> None:
        self.log = CheckpointLog(ObjectStore(folder))
        self.store = self.log.store
        self.runs: dict[str, list[RunFile]] = {step: [] for step in identity.operators}
        self.kept: list[Manifest] = []
        self.log.claim_generation()
        self.log.create_identity(identity)
        self.store.put(paths.SPARK_METADATA, b'{"id":"6f5e1d3c"}')

    def commit(
        self,
        epoch: int,
        *,
        lists: Sequence[ListState] = (),
        outputs: Sequence[StagedFile] = (),
        is_final: bool = False,
    ) -> Manifest:
        """Commit the next epoch, with Spark's entries for it."""
        offsets = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{epoch}}}\n{{"logOffset":{epoch}}}'
        for step, runs in self.runs.items():
            data = f"state of {step} in epoch {epoch}".encode() * 20
            path = paths.run_path(step, Epoch(epoch), 0, f"a{epoch}")
            self.store.put(path, data)
            runs.append(RunFile(path, 0, len(data), 10 + epoch, 0, 128, checksum_of([data])))
        manifest = replace(
            a_manifest(epoch),
            job="orders",
            offsets="" if is_final else offsets,
            is_final=is_final,
            operators=tuple(OperatorState(step, {"states": []}, tuple(runs), 2) for step, runs in self.runs.items()),
            list_states=tuple(lists),
            outputs=tuple(outputs),
            source_logs=() if is_final else (log_of(map(source_entry, range(epoch + 1)), 0, epoch),),
        )
        if not is_final:
            self.store.put(paths.spark_source_path(0, epoch), source_entry(epoch))
            self.store.put(paths.spark_offsets_path(Epoch(epoch)), offsets.encode())
        assert self.store.put_new(paths.manifest_path(Epoch(epoch)), encode_manifest(manifest))
        self.kept.append(manifest)
        return manifest

    def finish(self, epoch: int) -> None:
        """Spark notes that an epoch is over."""
        self.store.put(paths.spark_commits_path(Epoch(epoch)), b'v1\n{"nextBatchWatermarkMs":0}')

    def merge(self, epoch: int) -> None:
        """From the next epoch on, one run takes the place of all before it."""
        for step, runs in self.runs.items():
            path = paths.run_path(step, Epoch(epoch), 0, f"m{epoch}")
            self.store.put(path, b"merged")
            self.runs[step] = [
                RunFile(path, 0, 6, 1, 0, 128, checksum_of([b"merged"]), tuple(run.path for run in runs))
            ]

    def drop_oldest(self) -> None:
        """Drop the oldest checkpoint, as num-retained does."""
        drop_checkpoint(self.log, self.kept.pop(0), self.kept)
