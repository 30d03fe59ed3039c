"""Records in the files of a job's sources: a check before an epoch runs, and a second look after a failure.

Only sources that are ChecksFiles take part. The check needs the files of each source. Spark's log of an epoch has the
files by the number of a source; the order of the lines in Spark's offset entries says which source has which number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mixedmode.checkpoint.source_log import LoggedFile
from mixedmode.driver.dead_letters import FilesOf
from mixedmode.errors import InvalidJobError
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import ChecksFiles, OpenSource
from mixedmode.spark.errors import malformed_file

__all__ = ["InputRecords"]


class InputRecords:
    """The sources that a job reads, in the order in which Spark's offset entries have a line for each."""

    def __init__(
        self,
        sources: Mapping[str, OpenSource],
        sources_read: Sequence[str],
        dimensions: Iterable[object] = (),
        *,
        has_clock: bool,
    ) -> None:
        """has_clock: the query also reads the clock (sources/heartbeat.py)."""
        self._dimensions = tuple(dimensions)
        read = [sources[name] for name in sources_read if name in sources]
        self._sources = [side for source in read for side in sides_of(source)]
        self._has_clock = has_clock

    def check(
        self, files: Mapping[int, Sequence[LoggedFile]], present: Mapping[str, int], line_sources: Sequence[int]
    ) -> FilesOf:
        """Return the existing files of each source. Raise InvalidJobError if Spark would ignore a part of these files.

        files: {number of a source: its files}. present: {URL: bytes} of those that exist. line_sources: the number of
        the source of each line of Spark's offset entries.
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
    def located(self) -> Iterator[None]:
        """Turn Spark's failure on a record in this block into an InvalidJobError with the number of its line."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            url = malformed_file(error)
            told = None if url is None else self._wrong_record(url)
            if told is None:
                raise
            raise InvalidJobError(told) from error

    def _wrong_record(self, url: str) -> str | None:
        with suppress(PySparkException, Py4JError):  # the first failure is the one to report
            for source in (*self._sources, *self._dimensions):
                told = source.wrong_record(url) if isinstance(source, ChecksFiles) else None
                if told is not None:
                    return told
        return None
