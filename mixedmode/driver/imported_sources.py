"""The input of a query of Spark as that of a job: which source is which, and where each has come to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.source_log import beginning, files_named, log_of
from mixedmode.checkpoint.spark_log import source_entries_read
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import SourceLog
from mixedmode.config import SourceSpec
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.spark_state.progress import SparkProgress

__all__ = ["SourceOfSpark", "matched_sources", "sources_of_spark"]

_NOTHING_YET = "-"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SourceOfSpark:
    """A source of a query of Spark. number: its place, and its line. entries: of its log, {name: content}.

    end: its newest entry, if it reads files. read: files or topics that it has read.
    """

    number: int
    line: str
    end: int | None
    entries: Mapping[str, bytes]
    read: frozenset[str]

    @property
    def kind(self) -> str:
        """Return what it reads, for a message."""
        if self.line == _NOTHING_YET and not self.read:
            return "nothing yet"
        shown = ", ".join(sorted(self.read)[:_SHOWN]) + (", ..." if len(self.read) > _SHOWN else "")
        return f"{'files' if self.end is not None else 'kafka'} {shown}"

    def log(self, number: int) -> SourceLog | None:
        """Return the record of its log under another number; None if it has none."""
        if self.end is not None:
            return log_of(self.entries.values(), number, self.end)
        first = self.entries.get("0")
        return None if first is None else beginning(number, first)

    def is_read_by(self, spec: SourceSpec) -> bool:
        """Return whether a source of a job may be this one."""
        if self.line == _NOTHING_YET and not self.read:
            return True
        return spec.may_have_read("files" if self.end is not None else "topics", self.read)


def sources_of_spark(store: ObjectStore, progress: SparkProgress) -> list[SourceOfSpark]:
    """Return the sources of a query at its last committed batch.

    Raise InvalidJobError for a kind that is not taken over, CorruptStateError if a log is incomplete.
    """
    listing = [f"{paths.SPARK}/{path}" for path, _ in store.list("sources")]
    return [_source(store, listing, number, line) for number, line in enumerate(progress.lines)]


def matched_sources(sources: Sequence[SourceOfSpark], specs: Mapping[str, SourceSpec]) -> dict[str, SourceOfSpark]:
    """Return {source of the job: that of Spark}. Each takes the first one that reads the same, in the order of Spark.

    specs: {source: its settings}, in the order of Spark's numbers. Raise InvalidJobError if they read something else.
    """
    found, left = dict[str, SourceOfSpark](), dict(specs)
    for source in sources:
        name = next((name for name, spec in left.items() if source.is_read_by(spec)), None)
        if name is None:
            break
        found[name] = source
        del left[name]
    if left or len(found) < len(sources):
        here = "; ".join(f"{name}: {spec.place}" for name, spec in specs.items())
        there = "; ".join(f"{source.number}: {source.kind}" for source in sources)
        msg = (
            "the job and the query of Spark do not read the same sources, so they are not the same query. Nothing was "
            "imported. Give the job the sources of the query: as many, with the same paths and topics. "
            f"sources_here=({here}), sources_in_spark=({there})"
        )
        raise InvalidJobError(msg)
    return found


def _source(store: ObjectStore, listing: Sequence[str], number: int, line: str) -> SourceOfSpark:
    if line == _NOTHING_YET:
        return SourceOfSpark(number, line, None, {}, frozenset())
    said = _json(line)
    end = said.get("logOffset") if isinstance(said, dict) else None
    if isinstance(end, int):
        names = source_entries_read(listing, {number: end}) if end >= 0 else ()
        entries = {name.rsplit("/", 1)[1]: _entry(store, name) for name in names}
        try:
            files = frozenset(file.url for entry in entries.values() for file in files_named(entry))
        except ValueError as error:
            raise _damaged(store, f"sources/{number}", "cannot be read") from error
        return SourceOfSpark(number, line, end, entries, files)
    if isinstance(said, dict) and said and all(isinstance(one, dict) for one in said.values()):
        first = store.get(f"sources/{number}/0")
        return SourceOfSpark(number, line, None, {} if first is None else {"0": first}, frozenset(said))
    msg = (
        "a source of this query is neither of files nor of Kafka, and its offsets are not taken over. Nothing was "
        f"imported. Run the job from the beginning. folder={store.url}, source={number}, offset={line[:100]}"
    )
    raise InvalidJobError(msg)


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _entry(store: ObjectStore, name: str) -> bytes:
    path = name.removeprefix(f"{paths.SPARK}/")
    data = store.get(path)
    if data is None:
        raise _damaged(store, path, "is missing")
    return data


def _damaged(store: ObjectStore, file: str, why: str) -> CorruptStateError:
    return CorruptStateError(
        f"an entry of the log of a source {why}, so what the query has read is not known. Nothing was imported. Take "
        f"another copy of the checkpoint folder. folder={store.url}, entry={file}"
    )
