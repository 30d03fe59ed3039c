"""A folder of files as an output: publishing is a rename, optionally followed by a marker."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from typing_extensions import override

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.connectors.files.claim import Claim, claim_of_folder, claim_of_run, publication, put_claim
from mixedmode.connectors.files.compaction import newest_plan
from mixedmode.connectors.files.epoch_markers import mark_epoch, unmark, unmark_other
from mixedmode.connectors.files.replace_windows import replace_windows
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.column_types import has_empty_struct
from mixedmode.sinks.csv_lines import has_csv_form
from mixedmode.sinks.files import EPOCH_COLUMN, FileFormat, FileLayout, SinkTask
from mixedmode.sinks.json_lines import json_problem
from mixedmode.sinks.partitions import partition_problem
from mixedmode.sinks.publish import (
    OutputColumn,
    OutputDescription,
    describe_output,
    parsed_files,
    publish,
    published_files,
    published_of,
    read_output_description,
)
from mixedmode.sinks.sink import Sink, SinkContext
from mixedmode.time.window_range import ReplacedRows


def open_file_sink(spec: FileSinkSpec, context: SinkContext) -> "FileSink":
    """Return the sink."""
    claim = None  # a command that only looks at the output, or a restore
    if context.replaces:
        claim = claim_of_run()
    elif context.generation:
        claim = claim_of_folder(context.base)
    return FileSink(
        context.job,
        spec.path,
        spec.format,
        replaces=context.replaces,
        layout=file_layout(spec),
        marks_epochs=spec.success_marker,
        claim=claim,
    )


def file_layout(spec: FileSinkSpec) -> FileLayout:
    """Return the settings of a job file for an output's files, for the tasks that write them."""
    return FileLayout(spec.compression_used, spec.partitions, spec.max_file_size_bytes)


def columns_problem(task: SinkTask, fields: Sequence[pa.Field], key_columns: Sequence[str]) -> str | None:
    """Return why rows of these columns cannot be written in the output's format and folders; None if they can. Pure."""
    by_name = {field.name: field for field in fields}
    partitions = task.layout.partitions
    for partition in partitions:
        problem = partition_problem(partition, by_name, key_columns)
        if problem is not None:
            return f"the output cannot be partitioned by {partition}: {problem}"
    left_out = {partition.column for partition in partitions if partition.every is None}
    if partitions and not by_name.keys() - left_out:
        return (
            f"the output is partitioned by all of its columns, so its files would have none but {EPOCH_COLUMN}. Leave "
            f"one column in the files. columns={', '.join(by_name)}"
        )
    for field in fields:
        problem = _type_problem(task.format, field.type)
        if problem is not None:
            return f"the output cannot be {problem}. column={field.name}, type={field.type}"
    return None


def _type_problem(file_format: FileFormat, data_type: pa.DataType) -> str | None:
    """Return the format, why it has no form for a type, and what to do; None if it has one."""
    if file_format == "parquet" and has_empty_struct(data_type):
        return "Parquet: it has no struct without fields. Write JSON, or leave the column out in a sql step"
    if file_format == "json" and (problem := json_problem(data_type)) is not None:
        return f"JSON: {problem}, or write Parquet"
    if file_format == "csv" and not has_csv_form(data_type):
        return (
            "CSV: it has no form for nested columns and the like. Write Parquet or JSON, or make it text with "
            "to_json(...) in a sql step"
        )
    return None


class FileSink(Sink):
    """A folder of Parquet, JSON or CSV files that standard readers can read."""

    can_roll_back = True
    cannot_report_published = False

    def __init__(
        self,
        job: str,
        url: str,
        file_format: FileFormat,
        *,
        replaces: bool,
        layout: FileLayout = FileLayout(),  # noqa: B008 - frozen
        marks_epochs: bool = False,
        claim: Claim | None = None,
    ) -> None:
        """`replaces`: this is a batch run, which replaces the output of an earlier run.
        `marks_epochs`: write a marker for each published epoch. `claim`: the writer; None for a command or a restore.
        """
        self._job = job
        self._replaces = replaces
        self._marks_epochs = marks_epochs
        self._claim = claim
        self.task = SinkTask(url, file_format, layout)
        self.store = ObjectStore(url)

    @override
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Check the columns, and that the folder of a fresh job with checkpoints is empty: old files could collide."""
        problem = columns_problem(self.task, fields, key_columns)
        if problem is not None:
            raise InvalidJobError(problem)
        columns = tuple(OutputColumn(field.name, str(field.type)) for field in fields)
        if not is_fresh and read_output_description(self.store) is None:
            msg = (
                "the job goes on from a checkpoint, and the output it has written so far is not in this folder. Put "
                "the old path of this output back, or move its whole folder to the new path. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        run: Literal["batch", "continuous"] = "batch" if self._replaces else "continuous"
        by = tuple(map(str, self.task.layout.partitions))
        described = OutputDescription(self._job, run, self.task.format, tuple(key_columns), columns, by)
        describe_output(self.store, described)
        if is_fresh and not self._replaces and published_files(self.store):
            msg = (
                "the output folder holds the output of an earlier run whose checkpoints are not here, and the two "
                "would be mixed. Give this output a new path, empty the folder, or put the old checkpointing.dir back. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        if self._claim is not None:
            put_claim(self.store, self._claim)
        if self._replaces:  # this run cannot use what an earlier batch run has staged
            self.store.delete([path for path, _ in self.store.list(output_paths.STAGING)])

    @override
    def is_new(self) -> bool:
        return read_output_description(self.store) is None

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        claim = self._claim if staged or self._replaces else None
        with publication(self.store, claim):
            if self._replaces:
                self._make_room(epoch, staged)
            publish(self.store, staged)
            if self._marks_epochs:
                mark_epoch(self.store, epoch, staged)

    def _make_room(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Delete the output of an earlier batch run."""
        waiting = [file for file in staged if self.store.exists(file.staged_path)]
        published_before = {file.final_path for file in staged} - {file.final_path for file in waiting}
        others = [path for path, _ in published_files(self.store) if path not in published_before]
        unmark_other(self.store, epoch, staged)
        self.store.delete(others)

    @override
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Look for the published file, then for the staged one, then again for the published one: it may just be moved.

        A file that is gone because a compaction has taken its rows is no problem.
        """
        found = None
        for path in (file.final_path, file.staged_path, file.final_path):
            found = file_problem(self.store, path, size=file.bytes, checksum=file.checksum, reads=reads)
            if found is None:
                return None
            if self.store.exists(path):
                return path, found
        assert found is not None, "looked three times"
        return None if self._is_compacted(file) else (file.final_path, found)

    @override
    def newest_published(self) -> Epoch | None:
        return max((file.last for file in parsed_files(self.store)), default=None)

    @override
    def oldest_published(self) -> Epoch | None:
        return min((file.first for file in parsed_files(self.store)), default=None)

    @override
    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        """Return also a compacted file that holds later rows: they cannot be rolled back."""
        across = [path for file, (path, _) in parsed_files(self.store).items() if file.first <= epoch < file.last]
        return sorted({*published_of(self.store, epoch), *across} - {file.final_path for file in files})

    @override
    def obstacle(self, manifest: Manifest) -> str | None:
        return self._obstacle(manifest.epoch)

    @override
    def roll_back(self, after: Epoch) -> int:
        """Delete from the newest epoch to the oldest, so that after a crash `newest_published` still reports the rest.

        Raises InvalidJobError if a compaction has merged epochs up to `after` with later ones; nothing is deleted then.
        """
        obstacle = self._obstacle(after)
        if obstacle is not None:
            raise InvalidJobError(obstacle)
        files = parsed_files(self.store)
        unmark(self.store, after=after)
        newest_first = sorted(files, key=lambda file: (-file.last, file.folder))
        later = [files[file][0] for file in newest_first if file.last > after]
        for path, _ in self.store.list(output_paths.STAGING):
            file = output_paths.parse_staged_path(path)
            if file is not None and file.epoch > after:
                later.append(path)
        self.store.delete(later)
        return len(later)

    @override
    def no_replacement(self, replaced: ReplacedRows) -> str | None:
        if not self.task.layout.partitions:
            return None
        return "it is partitioned, and rows of several folders cannot be replaced at once"

    @override
    def replace_windows(self, rows: pa.Table, replaced: ReplacedRows, before: Epoch) -> None:
        replace_windows(self.task, rows, replaced, before)

    def _obstacle(self, after: Epoch) -> str | None:
        _, plan = newest_plan(self.store)
        if plan is not None and after < plan.oldest:
            return (
                "the job goes back to an epoch before the checkpoints that it had when a backfill replaced rows of the "
                "output. It would write rows of the backfill again, or lack them. Nothing was changed. Give this "
                "output a new path, or restore its folder from a copy. "
                f"folder={self.store.url}, epoch={after}, oldest_epoch={plan.oldest}"
            )
        files = parsed_files(self.store)
        across = sorted(path for file, (path, _) in files.items() if file.first <= after < file.last)
        if not across:
            return None
        return (
            "the job goes back to an epoch that a compaction has merged with later ones, so their rows cannot be "
            "taken out of the output. Nothing was changed. Give this output a new path, or restore its folder from "
            f"a copy. folder={self.store.url}, file={across[0]}, epoch={after}"
        )

    def _is_compacted(self, staged: StagedFile) -> bool:
        wanted = output_paths.parse_output_path(staged.final_path)
        assert wanted is not None, staged
        merged = (file for file in parsed_files(self.store) if file.is_compacted and file.folder == wanted.folder)
        return any(file.first <= wanted.first <= file.last for file in merged)
