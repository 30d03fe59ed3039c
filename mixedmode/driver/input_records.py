"""Records in the files of a job's sources: a check before an epoch runs, and a second look when its tasks have ended.

Only sources that are ChecksFiles take part. The check needs the files of each source. Spark's log of an epoch has the
files by the number of a source; the order of the lines in Spark's offset entries says which source has which number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mixedmode.checkpoint.source_log import LoggedFile
from mixedmode.driver.dead_letters import FilesOf
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sources.source import ChecksFiles
from mixedmode.spark.errors import malformed_file
from mixedmode.spark.file_lengths import FileState

__all__ = ["InputRecords"]


class InputRecords:
    """The sources that a job reads, in the order in which Spark's offset entries have a line for each."""

    def __init__(self, read: SourcesRead, dimensions: Iterable[object] = ()) -> None:
        self._dimensions = tuple(dimensions)
        self._sources = [side for _, _, side in read.sides]
        self._has_clock = read.has_clock

    def check(
        self, files: Mapping[int, Sequence[LoggedFile]], present: Mapping[str, FileState], line_sources: Sequence[int]
    ) -> FilesOf:
        """Return the existing files of each source. Raise InvalidJobError if Spark would ignore a part of these files.

        files: {number of a source: its files}. present: {URL: its state} of those that exist. line_sources: the number
        of the source of each line of Spark's offset entries.
        """
        lines = line_sources[: len(line_sources) - self._has_clock]
        found: list[tuple[object, list[str]]] = []
        for source, number in zip(reversed(self._sources), reversed(lines), strict=False):
            urls = [file.url for file in files.get(number, ()) if file.url in present]
            if isinstance(source, ChecksFiles):
                source.check_files({url: present[url] for url in urls})
            found.append((source, urls))
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise RetryableError if a file was changed while this block read the files that were checked before.

        Turn Spark's failure on a record in the block into an InvalidJobError with the number of its line.
        """
        try:
            yield
        except (InvalidJobError, PySparkException, Py4JError) as error:
            with suppress(PySparkException, Py4JError):  # the first failure is the one to report
                self._check_unchanged()
            url = malformed_file(error)
            told = None if url is None else self._wrong_record(url)
            if told is None:
                raise
            raise InvalidJobError(told) from error
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        changes = [source.changed_file() for source in self._sources if isinstance(source, ChecksFiles)]
        changed = next(filter(None, changes), None)
        if changed is not None:
            msg = (
                "a file of a source was changed or removed while its records were read, so they could have been of two "
                "versions, and nothing was committed. Put it back if it is gone. Write a file under a name that begins "
                "with _ or a dot, and rename it when it is complete. Then start again: a job resumes. "
                f"changed={changed}"
            )
            raise RetryableError(msg)

    def _wrong_record(self, url: str) -> str | None:
        with suppress(PySparkException, Py4JError):  # the first failure is the one to report
            for source in (*self._sources, *self._dimensions):
                told = source.wrong_record(url) if isinstance(source, ChecksFiles) else None
                if told is not None:
                    return told
        return None
