"""`mixedmode verify`: runs a job once more over the input of its newest checkpoint, and compares the tables.

The replay is one backlog over exactly the files that Spark's log names up to the checkpoint, in folders of its own. A
backlog fires what the watermark of this input fires, so open windows are open in both tables. The table of the job, as
it was after the epoch of the checkpoint, is read before the replay, which may take longer than a lease lasts.

Not every job can be replayed: see `refusal`.

Invariant (tests/driver/test_verification.py): the replay reads each file of the checkpoint's input once, and no other.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mixedmode.checkpoint.go_back import spark_listing
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.source_log import ends_of, extended, files_named
from mixedmode.checkpoint.spark_log import source_entries_read
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.config import JobSpec, KeyedAggregateStep
from mixedmode.config.graph import MAIN
from mixedmode.config.load import LoadedJob, job_spec_from_mapping
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.driver.comparison import Differences, differences
from mixedmode.driver.scratch import document_in_scratch, without
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.queryable import LEASE_SECONDS, open_state
from mixedmode.sinks.publish import unpublished_after_waiting
from mixedmode.sinks.table import CurrentTable, read_output, table_at

__all__ = ["Verified", "input_files", "linked_input", "refusal", "replay_spec", "verify_job"]

#: settings that would make several epochs of a backlog
_LEFT_OUT = ("max-files-per-epoch", "max-bytes-per-epoch")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: the epoch, the number of its input files, and the differences."""

    epoch: int
    files: int
    differences: Differences


def verify_job(job: LoadedJob, *, has_lease: bool = True) -> Verified:
    """Run a job over the input of its newest checkpoint, in folders of its own, and compare with its table.

    has_lease: False writes nothing to the checkpoint folder, so the job may drop the checkpoint meanwhile.
    Raise InvalidJobError, with the reason, for a job that cannot be replayed, and the errors of a run.
    """
    from mixedmode.driver.run import RunOptions, Until, run_job  # noqa: PLC0415 - Spark is loaded only to run

    spec = job.spec
    reason = refusal(spec)
    if reason is not None:
        msg = f"this job cannot be verified: {reason}. name={spec.name}"
        raise InvalidJobError(msg)
    folder, sink = spec.execution.checkpointing.dir, spec.sink
    assert folder is not None, spec.name
    assert isinstance(sink, FileSinkSpec), spec.name
    lease_seconds = LEASE_SECONDS if has_lease else 0
    with open_state(folder, lease_seconds=lease_seconds) as state, temporary_folder("verify-") as scratch:
        log, manifest = CheckpointLog(ObjectStore(folder)), state.manifest
        files = input_files(log, manifest)
        (source,) = spec.sources.values()
        assert isinstance(source, FileSourceSpec), source
        table = _table(log, manifest, sink)
        linked_input(files, source.path, scratch / "in")
        replay = replay_spec(spec, scratch)
        run_job(replay, job.where, RunOptions(until=Until.DRAINED if manifest.is_final else Until.IDLE))
        expected = read_output(scratch / "out")
    columns = expected.column_names
    found = differences(expected, table.rows.select(columns), table.description.key_columns)
    return Verified(manifest.epoch, len(files), found)


def _table(log: CheckpointLog, manifest: Manifest, sink: FileSinkSpec) -> CurrentTable:
    """Return the table of a job after an epoch.

    Raise RetryableError if rows of the epoch are not published, or if the job has dropped or left its checkpoint.
    """
    store = ObjectStore(sink.path)
    unpublished = unpublished_after_waiting([(store, file) for file in manifest.outputs if file.sink == MAIN])
    if unpublished is not None:
        msg = (
            "rows of the newest checkpoint are not published yet, so the table lacks them. Start the job, which "
            "publishes them first, or see why the running one cannot; then verify again. "
            f"epoch={manifest.epoch}, file={store.url}/{unpublished.staged_path}"
        )
        raise RetryableError(msg)
    table = table_at(sink.path, manifest.epoch)
    found = log.get(manifest.epoch)
    is_left = is_abandoned(manifest.epoch, manifest.generation, log.goings_back())
    if found is None or found.identity != manifest.identity or is_left:
        msg = (
            "the job has dropped or left the checkpoint while its table was read, so the table may be of another one. "
            f"Verify again; without --no-lease, the job does not drop it. epoch={manifest.epoch}, "
            f"folder={log.store.url}"
        )
        raise RetryableError(msg)
    return table


def refusal(spec: JobSpec) -> str | None:
    """Return why a job cannot be verified; None if it can."""
    if spec.execution.checkpointing.dir is None:
        return "it has no checkpoints, so nothing says which input its table covers"
    if len(spec.sources) != 1 or not isinstance(next(iter(spec.sources.values())), FileSourceSpec):
        return "its input cannot be read again exactly; only one source of files can"
    (source,) = spec.sources.values()
    if "://" in source.place and "file://" not in source.place:
        return "its files are not on this machine"
    if spec.sink is None:
        return "it has several outputs, and only the table of a job with `sink` is compared"
    if not isinstance(spec.sink, FileSinkSpec):
        return "its main output is no folder of files"
    early = [step for step in spec.steps if isinstance(step, KeyedAggregateStep) and step.early_results_every_ms]
    if early:
        return "its table has early results, which depend on when they were emitted"
    return None


def input_files(log: CheckpointLog, manifest: Manifest) -> tuple[str, ...]:
    """Return the paths of the files that a job has read up to a checkpoint, from Spark's log of its source.

    Raise CorruptStateError if the log is not the one that the manifest knows, InvalidJobError if a file is gone.
    """
    listing = spark_listing(log)
    found: dict[str, None] = {}
    for known in manifest.source_logs:
        if known.end is None:  # the clock of the job
            continue
        entries = source_entries_read(listing, ends_of([known]))
        files = [file for path in entries for file in files_named(log.store.get(path) or b"v1\n")]
        if extended(None, known.source, known.end, files) != known:
            msg = (
                "Spark's log of the source is damaged, so the input of the checkpoint is not known. Start the job: it "
                f"goes back to a checkpoint that is whole. folder={log.store.url}, source={known.source}"
            )
            raise CorruptStateError(msg)
        found.update(dict.fromkeys(unquote(urlsplit(file.url).path) for file in files))
    gone = [path for path in found if not Path(path).exists()]
    if gone:
        msg = (
            "this job cannot be verified: files of its input are gone. Put them back, and verify again. "
            f"files_gone={len(gone)}, first={gone[0]}"
        )
        raise InvalidJobError(msg)
    return tuple(found)


def linked_input(files: Sequence[str], source: str, folder: Path) -> None:
    """Link the files into a folder, below the same folders as in the source, because these may be partitions."""
    root = os.path.realpath(source.removeprefix("file://"))
    folder.mkdir(parents=True)
    for number, path in enumerate(files):
        real = os.path.realpath(path)
        is_below = Path(root).is_dir() and os.path.commonpath([root, real]) == root
        target = folder / (os.path.relpath(real, root) if is_below else f"{number:08d}-{Path(path).name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(real)


def replay_spec(spec: JobSpec, scratch: Path) -> JobSpec:
    """Return the job over `scratch / "in"`, with its checkpoints and outputs in `scratch`, as one backlog."""
    document = document_in_scratch(spec, scratch)
    ((name, source),) = document["sources"].items()
    document["sources"] = {name: {**without(source, *_LEFT_OUT), "path": str(scratch / "in")}}
    document["execution"] |= {"runtime-mode": "mixed", "checkpointing": {"dir": str(scratch / "checkpoints")}}
    return job_spec_from_mapping(document)
