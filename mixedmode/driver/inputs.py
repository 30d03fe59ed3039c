"""The frames that a job reads, and the settings of its stages. A frame has rows, or files that map tasks read."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.rescale import Subtasks
from mixedmode.checkpoint.types import Generation
from mixedmode.config import JobSpec, SourceSpec
from mixedmode.connectors.files.file_lengths import file_lengths
from mixedmode.connectors.files.source import FileSource
from mixedmode.driver.input_files import ignores_missing, inputs_gone, line_sources
from mixedmode.driver.rescale_requests import configured_subtasks
from mixedmode.executor.input_frames import input_frame, with_nothing_of
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sinks import SinkTask
from mixedmode.sources.heartbeat import with_heartbeat
from mixedmode.sources.source import Admission, ChecksBeginning, NotesBeginning, OpenSource
from mixedmode.spark.session import cores


class Inputs:
    """A planned job's sources in one session."""

    def __init__(self, session: SparkSession, spec: JobSpec, plan: JobPlan, sources: Mapping[str, OpenSource]) -> None:
        """`sources` are the sources of the job, opened in this session."""
        self.session = session
        self._spec = spec
        self._plan = plan
        self._sources = sources
        self._parallelism = min(cores(session), spec.pipeline.max_parallelism)  # where no number is given

    def batch(self) -> DataFrame:
        """Return a frame of all input that is present now."""
        if self._plan.reads:
            return self._files().list_batch()
        frames = {name: source.batch() for name, source in self._sources.items()}
        return input_frame(self.session, self._plan, frames)

    def stream(self, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        """Return a streaming frame of present and future input; a micro-batch has at most `admission` per source."""
        frame = self._stream(admission)
        return with_heartbeat(self.session, frame) if self._plan.uses_clock else frame

    def _stream(self, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        limits = {name: admission(source) for name, source in self._spec.sources.items()}
        if self._plan.reads:
            files = self._files().list_stream(next(iter(limits.values())))
            return with_nothing_of(self.session, files)
        frames = {name: source.stream(limits[name]) for name, source in self._sources.items()}
        return input_frame(self.session, self._plan, frames)

    def line_sources(self) -> tuple[int, ...]:
        """Return the number of the source of each line of Spark's offset entries."""
        return line_sources(self.stream(lambda _source: Admission()))

    def present(self, urls: Sequence[str]) -> dict[str, int]:
        """Return {URL: bytes} of those of the planned files that exist; where map tasks read files, of those to read.

        Raise CorruptStateError if a file does not exist, unless the job's settings tell Spark to skip missing files.
        """
        options: dict[str, str] = {}
        for source in self._spec.sources.values():
            for side in getattr(source, "sides", {"": source}).values():
                options |= getattr(side, "options", {})
        found = file_lengths(self.session, urls, options)
        gone = [url for url in urls if url not in found]
        if gone and not ignores_missing(self.session):
            raise inputs_gone(gone, planned=len(urls))
        return {url: found[url] for url in self._files().files_read(found)} if self._plan.reads else found

    def check_beginnings(self) -> None:
        """Before a job's first epoch: raise InvalidJobError if a stream would skip a part of the present input."""
        for source in self._sources.values():
            if isinstance(source, ChecksBeginning):
                source.check_beginning()

    def notices(self) -> Iterator[str]:
        """Yield facts about the input that a person should see before the first epoch, such as that it has no files."""
        for source in self._sources.values():
            if isinstance(source, NotesBeginning):
                yield from source.notices()

    def reads_once(self, path: str) -> bool:
        """Return whether a source reads the file of this path once, although the path looks like a pattern to Spark."""
        return any(isinstance(one, NotesBeginning) and one.reads_once(path) for one in self._sources.values())

    def _files(self) -> FileSource:
        """Return the only source of a job whose map tasks read files themselves."""
        (source,) = self._sources.values()
        assert isinstance(source, FileSource), source
        return source

    def settings(
        self,
        sinks: Mapping[str, SinkTask],
        checkpoint_url: str | None,
        generation: Generation,
        *,
        is_backlog: bool,
        subtasks: Subtasks | None = None,
    ) -> StageSettings:
        """Return the stage settings. If the backlog has its own parallelism, every step has that one in backlog.

        checkpoint_url: None in batch mode. subtasks: the requested numbers; None: the numbers of the job file.
        """
        asked = subtasks or configured_subtasks(self._spec)
        backlog_parallelism = self._spec.execution.backlog.parallelism if is_backlog else None
        return StageSettings(
            parallelism=backlog_parallelism or asked.job or self._parallelism,
            step_parallelism={} if backlog_parallelism else asked.steps,
            max_parallelism=self._spec.pipeline.max_parallelism,
            sort_memory_bytes=self._spec.state.backlog.sort_memory_bytes,
            checkpoint_url=checkpoint_url,
            generation=generation,
            sinks=sinks,
            job=self._spec.name,
            emits_running_results=self._spec.execution.backlog.emit == "all",
        )
