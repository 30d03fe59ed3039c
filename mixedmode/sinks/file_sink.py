"""A folder of files as an output: publishing is a rename."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import FileFormat, SinkTask
from mixedmode.sinks.publish import (
    OutputColumn,
    OutputDescription,
    describe_output,
    publish,
    published_files,
    published_of,
    read_output_description,
)


class FileSink:
    """A folder of Parquet or JSON files that any reader can read."""

    can_take_back = True
    is_memoryless = False

    def __init__(self, job: str, url: str, file_format: FileFormat, *, replaces: bool) -> None:
        """`replaces`: a batch run, which starts over, takes the place of an earlier run's output."""
        self._job = job
        self._replaces = replaces
        self.task = SinkTask(url, file_format)
        self.store = ObjectStore(url)

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """See Sink. A fresh job with checkpoints wants an empty folder: epoch 0 would meet another run's files."""
        columns = tuple(OutputColumn(field.name, str(field.type)) for field in fields)
        if not is_fresh and read_output_description(self.store) is None:
            msg = (
                "the job goes on from a checkpoint, and the output it has written so far is not in this folder. Put "
                "the old path of this output back, or move its whole folder to the new path. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        run: Literal["batch", "continuous"] = "batch" if self._replaces else "continuous"
        describe_output(self.store, OutputDescription(self._job, run, self.task.format, tuple(key_columns), columns))
        if is_fresh and not self._replaces and published_files(self.store):
            msg = (
                "the output folder holds the output of an earlier run whose checkpoints are not here, and the two "
                "would be mixed. Give this output a new path, empty the folder, or put the old checkpointing.dir back. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        if self._replaces:  # what a batch run that died has staged is of no use to this one
            self.store.delete([path for path, _ in self.store.list(paths.STAGING)])

    def is_new(self) -> bool:
        """See Sink."""
        return read_output_description(self.store) is None

    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:  # noqa: ARG002 - files say their epoch
        """See Sink."""
        if self._replaces:
            waiting = [file for file in staged if self.store.exists(file.staged_path)]
            published_before = {file.final_path for file in staged} - {file.final_path for file in waiting}
            others = [path for path, _ in published_files(self.store) if path not in published_before]
            self.store.delete(others)
        publish(self.store, staged)

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """See Sink. What was published counts; what was not, as it is staged; it may just be published."""
        found = None
        for path in (file.final_path, file.staged_path, file.final_path):
            found = file_problem(self.store, path, size=file.bytes, checksum=file.checksum, reads=reads)
            if found is None:
                return None
            if self.store.exists(path):
                return path, found
        assert found is not None, "looked three times"
        return file.final_path, found

    def newest_published(self) -> Epoch | None:
        """See Sink."""
        return max((file[0] for file in self._published()), default=None)

    def oldest_published(self) -> Epoch | None:
        """See Sink."""
        return min((file[0] for file in self._published()), default=None)

    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        """See Sink."""
        return sorted(set(published_of(self.store, epoch)) - {file.final_path for file in files})

    def take_back(self, after: Epoch) -> int:
        """See Sink. From the newest to the oldest, so that after a crash `newest_published` still tells of the rest."""
        later = [path for epoch, path in sorted(self._published(), reverse=True) if epoch > after]
        for path, _ in self.store.list(paths.STAGING):
            file = paths.parse_staged_path(path)
            if file is not None and file.epoch > after:
                later.append(path)
        self.store.delete(later)
        return len(later)

    def _published(self) -> list[tuple[Epoch, str]]:
        parsed = ((paths.parse_final_path(path), path) for path, _ in published_files(self.store))
        return [(file[0], path) for file, path in parsed if file is not None]
