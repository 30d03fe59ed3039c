"""`mixedmode compact JOB`: merges small files of a job's outputs into larger ones, also while the job runs."""

from collections.abc import Sequence

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.cli.consoles import human_bytes
from mixedmode.config import JobSpec
from mixedmode.connectors.files.compact import compact_output
from mixedmode.connectors.files.sink import file_layout
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.counts import counted
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import SinkTask


def compaction_report(spec: JobSpec, *, target_bytes: int, newest_only: bool, output: str | None = None) -> str:
    """Compact each file output of a job, or only the one with the folder `output`. Return a line for each.

    newest_only has no effect on outputs without a key. Raises InvalidJobError if there is no output to compact.
    """
    before = _oldest_checkpoint(spec)
    lines = []
    for sink in _chosen(spec, output):
        if before is None:
            lines.append(f"{sink.path}: nothing to compact, since the job has no checkpoint yet")
            continue
        task = SinkTask(sink.path, sink.format, file_layout(sink))
        done = compact_output(task, before=before, target_bytes=target_bytes, newest_only=newest_only)
        lines.append(
            f"{sink.path}: {counted(done.files_before, 'file')}, {human_bytes(done.bytes_before)} -> "
            f"{counted(done.files_after, 'file')}, {human_bytes(done.bytes_after)}; "
            f"epochs from {before} on were left alone"
        )
    return "\n".join(lines)


def _oldest_checkpoint(spec: JobSpec) -> Epoch | None:
    folder = spec.execution.checkpointing.dir
    if folder is None:
        msg = (
            "a job without checkpoints writes its output anew with each run, so there is nothing to compact. For fewer "
            f"and larger files, set a smaller parallelism, or no partitions. name={spec.name}"
        )
        raise InvalidJobError(msg)
    log = CheckpointLog(ObjectStore(folder))
    identity = log.read_identity()
    if identity is not None and identity.name != spec.name:
        msg = (
            "the checkpoint folder is another job's, so it does not say which epochs of this job's output are still "
            f"needed. Correct execution.checkpointing.dir. name={spec.name}, found={identity.name}, folder={folder}"
        )
        raise InvalidJobError(msg)
    return next(iter(log.epochs()), None)


def _chosen(spec: JobSpec, output: str | None) -> Sequence[FileSinkSpec]:
    sinks = [sink for sink in spec.sinks.values() if isinstance(sink, FileSinkSpec)]
    found = [sink for sink in sinks if output is None or ObjectStore(sink.path).url == ObjectStore(output).url]
    if not found:
        folders = ", ".join(sink.path for sink in sinks)
        msg = (
            "the job has no such output of files. Compaction is for outputs in Parquet, JSON and CSV. "
            f"folder={output}, folders={folders or 'none'}"
        )
        raise InvalidJobError(msg)
    return found
