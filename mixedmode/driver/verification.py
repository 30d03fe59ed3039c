"""`mixedmode verify`: runs a job once more over the input of its newest checkpoint, and compares its tables.

The replay is one backlog over exactly the files that Spark's log names up to the checkpoint, in folders of its own. A
backlog fires what the watermark of this input fires, so open windows are open in both tables. The tables of the job, as
they were after the epoch of the checkpoint, are read before the replay, which may take longer than a lease lasts.

Not every job can be replayed: see `refusal`.

Invariant (tests/driver/test_verification.py): the replay reads each file of the checkpoint's input once, and no other.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from mixedmode.config.load import LoadedJob, job_spec_from_mapping
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.driver.comparison import Differences, differences
from mixedmode.driver.scratch import document_in_scratch, output_folder, without
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.queryable import LEASE_SECONDS, open_state
from mixedmode.sinks.publish import unpublished_after_waiting
from mixedmode.sinks.table import CurrentTable, read_output, table_at

__all__ = ["Verified", "input_files", "input_folder", "linked_input", "refusal", "replay_spec", "verify_job"]

#: settings that would make several epochs of a backlog
_LEFT_OUT = ("max-files-per-epoch", "max-bytes-per-epoch")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification.

    epoch: that of the checkpoint. files: the number of its input files. differences: {output: those of its table}; MAIN
    for `sink`. others: {output: its place} of outputs that are no folders of files, and were not compared.
    """

    epoch: int
    files: int
    differences: Mapping[str, Differences]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def are_equal(self) -> bool:
        """True if the tables and the replay have no differences."""
        return all(one.are_none for one in self.differences.values())


def verify_job(job: LoadedJob, *, has_lease: bool = True) -> Verified:
    """Run a job over the input of its newest checkpoint, in folders of its own, and compare with its tables.

    has_lease: False writes nothing to the checkpoint folder, so the job may drop the checkpoint meanwhile.
    Raise InvalidJobError, with the reason, for a job that cannot be replayed, and the errors of a run.
    """
    from mixedmode.driver.run import RunOptions, Until, run_job  # noqa: PLC0415 - Spark is loaded only to run

    spec = job.spec
    reason = refusal(spec)
    if reason is not None:
        msg = f"this job cannot be verified: {reason}. name={spec.name}"
        raise InvalidJobError(msg)
    folder = spec.execution.checkpointing.dir
    assert folder is not None, spec.name
    lease_seconds = LEASE_SECONDS if has_lease else 0
    with open_state(folder, lease_seconds=lease_seconds) as state, temporary_folder("verify-") as scratch:
        log, manifest = CheckpointLog(ObjectStore(folder)), state.manifest
        files = input_files(log, manifest)
        names = _source_names(job)
        if not files.keys() <= names.keys():
            msg = (
                "this job cannot be verified: the checkpoint has files of a source that the job does not read. Verify "
                f"with the job file that it ran with. sources={', '.join(spec.sources)}"
            )
            raise InvalidJobError(msg)
        sinks = {name: sink for name, sink in spec.results.items() if isinstance(sink, FileSinkSpec)}
        tables = {name: _table(log, manifest, name, sink) for name, sink in sinks.items()}
        for name in spec.sources:
            read = [path for number, paths in files.items() if names[number] == name for path in paths]
            linked_input(read, _path(spec, name), input_folder(scratch, name))
        until = Until.DRAINED if manifest.is_final else Until.IDLE
        run_job(replay_spec(spec, scratch), job.where, RunOptions(until=until))
        found = {name: _compared(output_folder(scratch, name), table) for name, table in tables.items()}
    others = {name: sink.place for name, sink in spec.results.items() if name not in sinks}
    return Verified(manifest.epoch, sum(map(len, files.values())), found, others)


def _source_names(job: LoadedJob) -> Mapping[int, str]:
    """Return {number that Spark's log has for a source: its name}."""
    if len(job.spec.sources) == 1:
        return dict(enumerate(job.spec.sources))
    from mixedmode.driver.engine import Engine  # noqa: PLC0415 - Spark is loaded only to run
    from mixedmode.spark.session import open_session  # noqa: PLC0415 - as above

    engine = Engine(open_session(job.spec))
    return engine.inputs(job.spec, engine.analyse(job.spec, job.where)).source_names()


def _path(spec: JobSpec, name: str) -> str:
    source = spec.sources[name]
    assert isinstance(source, FileSourceSpec), source
    return source.path


def _compared(folder: Path, table: CurrentTable) -> Differences:
    expected = read_output(folder)
    return differences(expected, table.rows.select(expected.column_names), table.description.key_columns)


def _table(log: CheckpointLog, manifest: Manifest, name: str, sink: FileSinkSpec) -> CurrentTable:
    """Return the table of an output after an epoch.

    Raise RetryableError if rows of the epoch are not published, or if the job has dropped or left its checkpoint.
    """
    store = ObjectStore(sink.path)
    unpublished = unpublished_after_waiting([(store, file) for file in manifest.outputs if file.sink == name])
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
    for name, source in spec.sources.items():
        if not isinstance(source, FileSourceSpec):
            return f"a source cannot be read again exactly; only sources of files can. source={name}"
        if "://" in source.place and "file://" not in source.place:
            return f"the files of a source are not on this machine. source={name}"
    if not any(isinstance(sink, FileSinkSpec) for sink in spec.results.values()):
        return "it has no output in a folder of files"
    early = [step for step in spec.steps if isinstance(step, KeyedAggregateStep) and step.early_results_every_ms]
    if early:
        return "its table has early results, which depend on when they were emitted"
    return None


def input_files(log: CheckpointLog, manifest: Manifest) -> dict[int, tuple[str, ...]]:
    """Return {number of a source: paths of its files} of those that a job has read up to a checkpoint, by Spark's logs.

    Raise CorruptStateError if the log is not the one that the manifest knows, InvalidJobError if a file is gone.
    """
    listing = spark_listing(log)
    found: dict[int, tuple[str, ...]] = {}
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
        found[known.source] = tuple(dict.fromkeys(unquote(urlsplit(file.url).path) for file in files))
    gone = [path for paths in found.values() for path in paths if not Path(path).exists()]
    if gone:
        msg = (
            "this job cannot be verified: files of its input are gone. Put them back, and verify again. "
            f"files_gone={len(gone)}, first={gone[0]}"
        )
        raise InvalidJobError(msg)
    return found


def input_folder(scratch: Path, name: str) -> Path:
    """Return the folder of the input files of a source."""
    return scratch / "in" / name


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
    """Return the job over the `input_folder` of each source, with its checkpoints and outputs in `scratch`.

    It reads all input as one backlog.
    """
    document = document_in_scratch(spec, scratch)
    document["sources"] = {
        name: {**without(source, *_LEFT_OUT), "path": str(input_folder(scratch, name))}
        for name, source in document["sources"].items()
    }
    document["execution"] |= {"runtime-mode": "mixed", "checkpointing": {"dir": str(scratch / "checkpoints")}}
    return job_spec_from_mapping(document)
