"""Reads the stored entries of a question from the committed runs, and decodes them page by page."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock

import pyarrow as pa

from mixedmode.checkpoint.types import OperatorState, RunFile
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange
from mixedmode.queryable.fetched import FetchedRuns
from mixedmode.queryable.parts import StateView
from mixedmode.queryable.spans import Question, Span, UncutRange, after_position, spans_of, uncut_ranges
from mixedmode.state import StateRange
from mixedmode.state.rocksdb.reader import CLOSED, RunsReader, joined_ranges

__all__ = ["EntryReader", "Page", "ReaderPlace"]

ReaderPlace = tuple[str, int, int]  #: (step, state id, first key group)

_CHUNK = 4096  # entries that a limited read fetches at a time
#: entries that a scan fetches and decodes at a time. Twice as many do not fit into the cache of a core, and take longer
_ROWS = 2**14


@dataclass(frozen=True, slots=True)
class Page:
    """Decoded rows, and the stored key at which the next page begins; None if there is no more."""

    table: pa.Table
    next: bytes | None


class EntryReader:
    """Opens the runs of a checkpoint as they are needed, and keeps them open. Thread-safe."""

    def __init__(self, fetched: FetchedRuns, max_parallelism: int, folder: Path, cache_bytes: int) -> None:
        """folder: for links to the runs."""
        self._fetched = fetched
        self._max_parallelism = max_parallelism
        self._folder = folder
        self._cache_bytes = cache_bytes
        self._lock = Lock()
        self._ranges: dict[tuple[str, int], tuple[UncutRange, ...]] = {}
        self._open: dict[ReaderPlace, RunsReader] = {}
        self._used = set[ReaderPlace]()
        #: {(step, state id, key group): its open runs}, of the groups whose place is in `_used`
        self._by_group: dict[tuple[str, int, int], RunsReader] = {}
        self._numbers = count()  # of folders; that of a reader that did not open is not used again
        self.is_closed = False

    def close(self) -> None:
        """Close all runs, after the reads under way. No further one is opened."""
        with self._lock:
            self.is_closed = True
            for reader in self._open.values():
                reader.close()
            self._open.clear()

    def page(
        self, operator: OperatorState, view: StateView, question: Question, limit: int | None, position: bytes | None
    ) -> Page:
        """Return the rows of at most `limit` keys, from the stored key `position` on."""
        part = view.part
        spans = spans_of(question, part.state_id, self._max_parallelism, key_first=part.bytes_before == 0)
        if position is not None:
            spans = after_position(spans, position)
        if part.is_exact and question.keys is not None and limit is None:
            keys = [span.start for span in spans]
            values = self.values(operator, part.state_id, [span.group for span in spans], keys)
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
            return Page(part.decode(StateRange([key for key, _ in pairs], [value for _, value in pairs])), None)
        found = _Taken(limit)
        pieces = self._pieces(operator, view, question, spans, found)
        return Page(_table(view, pieces), found.next)

    def tables(
        self, operator: OperatorState, view: StateView, question: Question, groups: KeyGroupRange
    ) -> Iterator[pa.Table]:
        """Yield the rows of a range of key groups: at least one table, perhaps without rows."""
        part = view.part
        spans = spans_of(question, part.state_id, self._max_parallelism, key_first=part.bytes_before == 0)
        spans = tuple(span for span in spans if groups.start <= span.group < groups.end)
        yield from _tables(view, self._pieces(operator, view, question, spans, _Taken(None)))

    def values(
        self, operator: OperatorState, state_id: int, groups: Sequence[int], keys: Sequence[bytes]
    ) -> list[bytes | None]:
        """Return the value of each stored key (n,), None if it has none.  groups (n,): their key groups."""
        places: dict[RunsReader, list[int]] = {}
        step, by_group = operator.operator_id, self._by_group
        for place, group in enumerate(groups):
            reader = by_group.get((step, state_id, group)) or self._reader(operator, state_id, group)
            if reader is not None:
                places.setdefault(reader, []).append(place)
        found: list[bytes | None] = [None] * len(keys)
        for reader, own in places.items():
            for place, value in zip(own, reader.read([keys[place] for place in own]), strict=True):
                found[place] = value
        return found

    def _pieces(
        self, operator: OperatorState, view: StateView, question: Question, spans: Sequence[Span], taken: "_Taken"
    ) -> Iterator[StateRange]:
        """Yield the entries of the spans; those of a key are in one piece."""
        for span in spans:
            reader = self._reader(operator, view.part.state_id, span.group)
            if reader is None:
                continue
            if taken.left is None and (view.part.is_exact or view.part.bytes_before):
                for piece in reader.scan_in_pieces(span.start, span.end):  # each entry has rows of its own
                    yield _wanted(piece, view, question)
                continue
            yield _whole_keys(reader, view, question, span, taken)
            if taken.next is not None:
                return

    def _reader(self, operator: OperatorState, state_id: int, group: int) -> RunsReader | None:
        """Return the open runs of a key group; None if the state has no entry there."""
        step = operator.operator_id
        with self._lock:
            if self.is_closed:
                raise InvalidJobError(CLOSED)
            if (step, state_id) not in self._ranges:
                self._ranges[step, state_id] = uncut_ranges(operator.runs, state_id)
            for found in self._ranges[step, state_id]:
                if found.groups.start <= group < found.groups.end:
                    place = (step, state_id, found.groups.start)
                    if place not in self._open:
                        self._open[place] = self._opened(found.runs)
                    self._used.add(place)
                    self._by_group[step, state_id, group] = self._open[place]
                    return self._open[place]
        return None

    def used(self) -> tuple[ReaderPlace, ...]:
        """Return the places that reads have used."""
        with self._lock:
            return tuple(self._used)

    def prepare(self, operators: Sequence[OperatorState], places: Collection[ReaderPlace]) -> None:
        """Open the runs of these places, as far as the operators have them, so that reads there find them open."""
        by_step = {operator.operator_id: operator for operator in operators}
        for step, state_id, group in places:
            if step in by_step:
                self._reader(by_step[step], state_id, group)
        with self._lock:
            self._used.clear()
            self._by_group.clear()

    def _opened(self, runs: Sequence[RunFile]) -> RunsReader:
        fetches = [partial(self._fetched.link, run) for run in runs]
        return RunsReader(self._folder / str(next(self._numbers)), fetches, cache_bytes=self._cache_bytes)


class _Taken:
    """The number of keys that a page may still take, and where the next page begins."""

    def __init__(self, limit: int | None) -> None:
        self.left = limit
        self.next: bytes | None = None


def _whole_keys(reader: RunsReader, view: StateView, question: Question, span: Span, taken: _Taken) -> StateRange:
    """Return the entries of whole keys in a span, as many as the page may take."""
    if taken.left is None:
        return _wanted(reader.scan(span.start, span.end), view, question)
    keys, values = list[bytes](), list[bytes]()
    start: bytes | None = span.start
    while start is not None:
        part = reader.scan(start, span.end, limit=_CHUNK)
        start = part.keys[-1] + b"\x00" if len(part.keys) == _CHUNK else None
        wanted = _wanted(part, view, question)
        keys.extend(wanted.keys)
        values.extend(wanted.values)
        firsts = _first_entries(keys, view)
        if len(firsts) > taken.left:
            end = firsts[taken.left]
            taken.next = keys[end]
            return StateRange(keys[:end], values[:end])
    taken.left -= len(_first_entries(keys, view))
    return StateRange(keys, values)


def _wanted(part: StateRange, view: StateView, question: Question) -> StateRange:
    """Return the entries of wanted keys. Only where a time precedes the key, a span has others."""
    if view.part.bytes_before == 0 or (question.keys is None and not question.prefix):
        return part
    wanted = None if question.keys is None else {key for _, key in question.keys}
    keys, values = list[bytes](), list[bytes]()
    for key, stored, value in zip(view.keys_of(part.keys), part.keys, part.values, strict=True):
        if key in wanted if wanted is not None else key.startswith(question.prefix):
            keys.append(stored)
            values.append(value)
    return StateRange(keys, values)


def _first_entries(stored: Sequence[bytes], view: StateView) -> Sequence[int]:
    """Return the position of the first entry of each key; where a time precedes the key, each entry counts."""
    if view.part.is_exact or view.part.bytes_before:
        return range(len(stored))
    keys = view.keys_of(stored)
    return [at for at, key in enumerate(keys) if at == 0 or key != keys[at - 1]]


def _tables(view: StateView, pieces: Iterator[StateRange]) -> Iterator[pa.Table]:
    """Yield decoded pieces; one table without rows if there are none."""
    held, rows, is_empty = list[StateRange](), 0, True
    for piece in pieces:
        held.append(piece)
        rows += len(piece.keys)
        if rows >= _ROWS:
            yield view.part.decode(joined_ranges(held))
            held, rows, is_empty = [], 0, False
    if rows or is_empty:
        yield view.part.decode(joined_ranges(held))


def _table(view: StateView, pieces: Iterator[StateRange]) -> pa.Table:
    tables = list(_tables(view, pieces))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive").combine_chunks()
