"""Staged outputs for tests, as the task of an attempt stages them."""

from pathlib import Path

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.sinks.files import OutputWriter, SinkTask


def stage(
    task: SinkTask, folder: Path, unique: str, *tables: pa.Table, epoch: int = 0, subtask: int = 0, name: str = ""
) -> tuple[StagedFile, ...]:
    """Write the tables as one output of a subtask, with local files in `folder`, and return its staged files."""
    folder.mkdir(parents=True, exist_ok=True)
    with Uploads() as uploads:
        writer = OutputWriter(task, Epoch(epoch), subtask, folder, uploads, unique, name)
        for table in tables:
            writer.write(table)
        return writer.finish()
