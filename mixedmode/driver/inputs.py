"""The frames that a job reads (rows, or files whose rows its map tasks read), and the settings of its stages."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.rescale import Subtasks
from mixedmode.checkpoint.types import Generation
from mixedmode.config import JobSpec, SourceSpec
from mixedmode.driver.input_files import ignores_missing, inputs_gone, line_sources, missing_files
from mixedmode.driver.rescale_requests import configured_subtasks
from mixedmode.executor.input_frames import input_frame, with_nothing_of
from mixedmode.executor.spark import StageSettings
from mixedmode.plan.stages import JobPlan
from mixedmode.sinks import SinkTask
from mixedmode.sources import Admission, OpenSource
from mixedmode.sources.files import FileSource
from mixedmode.sources.heartbeat import with_heartbeat
from mixedmode.sources.source import ChecksBeginning, NotesBeginning
from mixedmode.spark.session import cores


class Inputs:
    """A planned job's sources in one session."""

    def __init__(self, session: SparkSession, spec: JobSpec, plan: JobPlan, sources: Mapping[str, OpenSource]) -> None:
        """`sources` are those of the job, opened in this session."""
        self.session = session
        self._spec = spec
        self._plan = plan
        self._sources = sources
        self._parallelism = min(cores(session), spec.pipeline.max_parallelism)  # where no number is given

    def batch(self) -> DataFrame:
        """Everything that is there now, once."""
        if self._plan.reads:
            return self._files().list_batch()
        frames = {name: source.batch() for name, source in self._sources.items()}
        return input_frame(self.session, self._plan, frames)

    def stream(self, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        """What is there and what comes, in micro-batches of at most `admission` per source."""
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
        """The number of the source of each line of Spark's offset entries."""
        return line_sources(self.stream(lambda _source: Admission()))

    def present(self, urls: Sequence[str]) -> list[str]:
        """Return those of the planned files that exist.

        Raises CorruptStateError if one is gone, unless the job asks for such files to be passed over.
        """
        options: dict[str, str] = {}
        for source in self._spec.sources.values():
            for side in getattr(source, "sides", {"": source}).values():
                options |= getattr(side, "options", {})
        gone = missing_files(self.session, urls, options)
        if gone and not ignores_missing(self.session):
            raise inputs_gone(gone, planned=len(urls))
        return [url for url in urls if url not in set(gone)] if gone else list(urls)

    def check_beginnings(self) -> None:
        """Before a job's first epoch: raises InvalidJobError if a stream would pass over a part of what is there."""
        for source in self._sources.values():
            if isinstance(source, ChecksBeginning):
                source.check_beginning()

    def notices(self) -> Iterator[str]:
        """Before a job's first epoch: what a person should see of its input, such as that there is none."""
        for source in self._sources.values():
            if isinstance(source, NotesBeginning):
                yield from source.notices()

    def reads_once(self, path: str) -> bool:
        """Return whether a source reads the file of this path once, although Spark takes the path for a pattern."""
        return any(isinstance(one, NotesBeginning) and one.reads_once(path) for one in self._sources.values())

    def _files(self) -> FileSource:
        """The one source of a job whose map tasks read files themselves."""
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
        """Stage settings; a backlog may have a parallelism of its own, which then is that of every step.

        checkpoint_url: None in batch mode. subtasks: as many as are asked for; not given: what the job file says.
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
            emits_running_results=self._spec.execution.backlog.emit == "all",
        )
