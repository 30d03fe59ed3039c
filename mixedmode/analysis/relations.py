"""The relations of a job while it is analysed: the rows of sources and steps, and what is known of them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mixedmode.analysis.catalyst import column_ids, read_frame
from mixedmode.analysis.event_times import find_event_time
from mixedmode.analysis.plan import nodes_of
from mixedmode.analysis.sql_checks import kept_keys
from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import Changelog
from mixedmode.operators.window import WINDOW_BOUNDS
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.reads import Reads, SqlText
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stages import EmittedRows

__all__ = ["Relation", "Roots", "check_columns"]


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of a source or of a step: a streaming stand-in for them, and how sql makes them of roots (see Reads).

    `root`: the stand-in of the only stage among the roots, to see what sql does with its columns; None for several.
    `windows`: the column of windows whose window_time is the event time, if sql may have windows of them.
    `root_keys`: columns of `root` that no two of its rows share, and others, if there are any.
    """

    name: str
    frame: DataFrame
    sql: tuple[SqlText, ...] = ()
    sources: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    root: DataFrame | None = None
    windows: str | None = None
    root_keys: tuple[tuple[str, ...], ...] = ()

    @property
    def row_key(self) -> RowKey:
        """Return the columns that no two of the rows share (see RowKey)."""
        with suppress(InvalidJobError):
            return min(self.row_keys(self.name), key=len, default=None)
        return None

    def row_keys(self, where: str) -> list[tuple[str, ...]]:
        """Return the keys of `root` that the sql over it keeps, by the names that they have here; [] if it has none.

        Raise InvalidJobError, beginning with `where`, if it keeps none of them.
        """
        if self.root is None or self.sources or len(self.stages) != 1:
            return []
        plan, before, after = read_frame(self.frame, until=self.root), column_ids(self.root), column_ids(self.frame)
        named = {name.lower(): name for name in self.frame.columns}
        found, lost = list[tuple[str, ...]](), None
        for key in self.root_keys:
            try:
                found.append(tuple(named[name] for name in kept_keys(plan, before, after, key, where=where)))
            except InvalidJobError as error:
                lost = error
        if lost is not None and not found:
            raise lost
        return found

    @property
    def types(self) -> dict[str, object]:
        """Return {column in lower case: Spark's type}."""
        return {field.name.lower(): field.dataType for field in self.frame.schema}


class Roots:
    """The sources and stages of a job so far.

    emitted: {operator id: the rows that the stage emits}. upstream: {root: the sources whose records can reach it}.
    """

    def __init__(
        self, sources: Sequence[str], event_times: Mapping[str, str], *, is_time_in_doubt: bool = False
    ) -> None:
        """event_times: {source: its event-time column}. is_time_in_doubt: that of a source is wrong, so no mistake may
        follow from it.
        """
        self._sources = tuple(sources)
        self._is_time_in_doubt = is_time_in_doubt
        self._event_times = event_times
        self.emitted: dict[str, EmittedRows] = {}
        self.upstream: dict[str, frozenset[str]] = {name: frozenset({name}) for name in sources}

    def reads(self, relations: Sequence[Relation]) -> Reads:
        """Return what a reader of these relations reads."""
        sources = tuple(dict.fromkeys(root for one in relations for root in one.sources))
        stages = tuple(dict.fromkeys(root for one in relations for root in one.stages))
        return Reads(
            relations=tuple(one.name for one in relations),
            sql=tuple({text.makes: text for one in relations for text in one.sql}.values()),
            sources=sources,
            stages=stages,
            changelogs=frozenset(root for root in stages if self.emitted[root].changelog is Changelog.RETRACT),
            upstream=frozenset(name for root in (*sources, *stages) for name in self.upstream[root]),
        )

    def event_time_of(self, root: str) -> str | None:
        """Return the event-time column of a source or a stage; None for rows without, and for those of a map stage."""
        return self.emitted[root].event_time if root in self.emitted else self._event_times.get(root)

    def upstream_of(self, relations: Sequence[Relation], keyed_before: int) -> Upstream:
        """Return the position of a keyed step that reads these relations.

        keyed_before: the number of earlier keyed steps.
        """
        reads = self.reads(relations)
        emitted = [self.emitted[root] for root in reads.stages]
        frame = relations[0].frame
        event_time = find_event_time(frame, self._times(reads))
        if event_time is None and not reads.stages and self._is_time_in_doubt:
            event_time = frame.columns[0]
        keeps_bounds = len(relations) == len(emitted) == 1 and emitted[0].has_windows
        return Upstream.of(
            reads,
            emitted,
            keyed_before,
            event_time=event_time,
            keeps_bounds=keeps_bounds and _keeps_bounds(relations[0]),
        )

    def upstream_of_pair(
        self, pair: tuple[Relation, Relation], keyed_before: int
    ) -> tuple[Upstream, tuple[str | None, str | None]]:
        """Return the position of a step that tells these relations apart, and the event-time column of each."""
        whole, left, right = (self.upstream_of(one, keyed_before) for one in (pair, *([relation] for relation in pair)))
        return whole, (left.event_time, right.event_time)

    def _times(self, reads: Reads) -> Mapping[str, str]:
        """Return {root: the name of its event-time column}; {} if the rows of a stage among the roots have none."""
        of_stages = {root: self.emitted[root].event_time for root in reads.stages}
        if None in of_stages.values():
            return {}
        of_maps = any(name not in self._sources for name in reads.sources)  # they may pass on a column of any source
        of_sources = {name: time for name, time in self._event_times.items() if of_maps or name in reads.sources}
        return {**of_sources, **{root: time for root, time in of_stages.items() if time is not None}}


def _keeps_bounds(given: Relation) -> bool:
    """Return whether the sql after a keyed step has left the bounds of its windows as they were."""
    if given.root is None:
        return False
    before, after = column_ids(given.root), column_ids(given.frame)
    is_union = any(node.kind == "Union" for node in nodes_of(read_frame(given.frame, until=given.root)))
    return not is_union and all(after.get(field.name) == before[field.name] for field in WINDOW_BOUNDS)


def check_columns(frame: DataFrame, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for two columns of one name, and for names that are kept."""
    names = [name.lower() for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            msg = f"{where}: two columns have one name. Rename one of them with AS. column={name}"
            raise InvalidJobError(msg)
        if name.startswith("_"):
            msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={name}"
            raise InvalidJobError(msg)
