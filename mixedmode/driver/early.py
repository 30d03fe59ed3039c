"""The start of Spark's JVM before the rest of the program is imported, because both take seconds and need a core each.

This module imports no more than a JVM needs.
"""

from contextlib import suppress
from pathlib import Path

from mixedmode.checkpoint.private_folder import keep_private, own_temporary_folder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config import JobSpec
from mixedmode.errors import MixedmodeError
from mixedmode.spark.jvm import begin_jvm
from mixedmode.spark.settings import LOGS, set_python, settings_of

__all__ = ["begin_spark", "keep_checkpoints_private", "log_folder_of"]


def begin_spark(spec: JobSpec, *, runs: bool) -> None:
    """Begin to start Spark's JVM for a job, for `open_session`.  runs: the job will run, so it has a folder for logs.

    Raises nothing: whatever is wrong is wrong again when the session is opened, and raised there.
    """
    with suppress(MixedmodeError, OSError):
        if runs:
            keep_checkpoints_private(spec)
        log_folder = log_folder_of(spec) if runs else None
        set_python(spec)
        begin_jvm(settings_of(spec, log_folder), log_folder)


def keep_checkpoints_private(spec: JobSpec) -> None:
    """Restrict access to the checkpoint folder, if the job says so, before anything is written to it."""
    checkpointing = spec.execution.checkpointing
    root = None if checkpointing.dir is None else ObjectStore(checkpointing.dir).local_root
    if root is not None and checkpointing.access == "owner":
        keep_private(root)


def log_folder_of(spec: JobSpec) -> Path:
    """Return the folder of Spark's log: beside local checkpoints, else in mixedmode's temporary folder."""
    folder = spec.execution.checkpointing.dir
    if folder is None or "://" in folder:
        return own_temporary_folder()
    return Path(folder) / LOGS
