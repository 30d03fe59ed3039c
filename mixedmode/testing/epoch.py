"""One epoch of a step, in one process: the same functions as in Spark's tasks, and nothing stored on disk.

The map side folds rows and splits them by subtask. Each subtask then sorts and processes its own rows.
The state is one sorted dictionary, in which a subtask sees its own key groups only. The state changes when all
subtasks are done, or not at all.

This is apart from `executor/local.py`, which stores runs and outputs in files: that executor needs RocksDB, an object
store and several times as long for an epoch. Both call the operator through the same functions (operators/running.py).
"""

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedDict
from typing_extensions import override

from mixedmode.errors import InternalError
from mixedmode.keys import KeyGroupRange, group_range
from mixedmode.operators.interface import KEY_GROUP_COLUMN, KeyedOperator, SideRows, SubtaskContext
from mixedmode.operators.running import divided_by_subtask, outputs_of, sorter_for
from mixedmode.profile import Profile
from mixedmode.state import KeyedStateBackend, MemoryBackend, PrefixRows, SingleKeyBackend, StateRange
from mixedmode.tasks.memory import share_memory
from mixedmode.testing.settings import Settings
from mixedmode.testing.step import Step
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime


@dataclass(frozen=True, slots=True)
class EpochOutput:
    """The tables that an epoch emitted: main output with `_op`, side outputs by tag, and late records."""

    main: list[pa.Table] = field(default_factory=list)
    sides: dict[str, list[pa.Table]] = field(default_factory=dict)
    late: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an epoch's state.

    `is_sorted`: nothing is read, because there is no state yet (the backlog). `is_kept`: what the epoch writes can be
    read afterwards, which is not so in batch.
    """

    entries: SortedDict
    is_sorted: bool
    is_kept: bool = True


def run_epoch(
    step: Step,
    operator: KeyedOperator,
    table: pa.Table,
    time: EpochTime,
    settings: Settings,
    place: Place,
    epoch: int,
) -> EpochOutput:
    """Run an epoch, by its number, over the records of `table`. If anything is raised, the state is unchanged."""
    output = EpochOutput()
    if operator.traits.by_clock:
        time = _by_clock(time)
    pieces = _map_side(step, operator, table, time, settings, output)
    memories = []
    for subtask in range(settings.parallelism):
        groups = group_range(subtask, parallelism=settings.parallelism, max_parallelism=settings.max_parallelism)
        stored = MemoryBackend(place.entries)
        memories.append(stored)
        backend: KeyedStateBackend = stored
        if place.is_sorted:
            backend = SingleKeyBackend(stored if place.is_kept else None)
        shares = share_memory(settings.sort_memory_bytes, operator.attributes, "sorted")
        own = _OwnGroups(backend, groups, _only_scanned(operator))
        context = SubtaskContext(own, time, groups, epoch, memory_bytes=shares.key_bytes)
        _run_subtask(operator, pieces[subtask], context, settings, output)
    for memory in memories:
        memory.commit()
    return output


def _map_side(
    step: Step, operator: KeyedOperator, table: pa.Table, time: EpochTime, settings: Settings, output: EpochOutput
) -> list[list[pa.Table]]:
    """Return the pieces of each subtask, and add late records to the output."""
    pieces: list[list[pa.Table]] = [[] for _ in range(settings.parallelism)]
    rows = -(-table.num_rows // settings.slices)  # rounded up: 10 rows in 4 slices are 3, 3, 3 and 1
    for start in range(0, table.num_rows, max(rows, 1)):
        part = table.slice(start, rows).combine_chunks()
        batch = step.batch(part)
        if operator.traits.by_clock:
            batch = replace(batch, times_us=np.full(part.num_rows, 1000 * time.clock_ms))
        folded = operator.fold(batch, late_us=time.late_us, max_parallelism=settings.max_parallelism)
        if len(folded.late_rows):
            output.late.append(part.take(pa.array(folded.late_rows)))
        groups = folded.table.column(KEY_GROUP_COLUMN).to_numpy()
        numbers = {"parallelism": settings.parallelism, "max_parallelism": settings.max_parallelism}
        for subtask, piece in divided_by_subtask(folded.table, groups, **numbers):
            pieces[subtask].append(piece)
    return pieces


def _by_clock(time: EpochTime) -> EpochTime:
    """Return the times of a step that goes by processing time: the clock is its watermark."""
    before_us = MIN_TIME_US if time.clock_before_ms is None else 1000 * time.clock_before_ms
    return replace(time, late_us=before_us, firing_us=MAX_TIME_US if time.is_final else 1000 * time.clock_ms)


def _run_subtask(
    operator: KeyedOperator,
    pieces: Sequence[pa.Table],
    context: SubtaskContext,
    settings: Settings,
    output: EpochOutput,
) -> None:
    spill_dir = Path(tempfile.gettempdir())  # the sorter creates a folder here if it spills
    with sorter_for(operator, budget_bytes=settings.sort_memory_bytes, spill_dir=spill_dir) as sorter:
        for piece in pieces:
            sorter.add(piece)
        for given in outputs_of(operator, sorter, context, Profile()):
            if isinstance(given, SideRows):
                output.sides.setdefault(given.tag, []).append(given.rows)
            else:
                output.main.append(given.upserts())


def _only_scanned(operator: KeyedOperator) -> set[int]:
    return {state.state_id for state in operator.states if not state.is_read_by_key}


class _OwnGroups(KeyedStateBackend):
    """A backend that lets a subtask reach its own key groups only, since in a job the others are on other machines.

    It reads no key of the states that the operator only scans, since their files have no filter.
    """

    def __init__(self, backend: KeyedStateBackend, groups: KeyGroupRange, only_scanned: Collection[int]) -> None:
        self._backend = backend
        self._only_scanned = only_scanned
        self._first = groups.start.to_bytes(2, "big")
        self._end = groups.end.to_bytes(2, "big")

    @property
    @override
    def starts_empty(self) -> bool:
        return self._backend.starts_empty

    @override
    def read(self, state_id: int, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        self._check(keys)
        assert state_id not in self._only_scanned, f"the operator says that it reads no key of state {state_id}"
        return self._backend.read(state_id, keys)

    @override
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        self._check([start])
        return self._backend.scan(state_id, start, end, bytes_max)

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        self._check(prefixes)
        return self._backend.scan_prefixes(state_id, prefixes, limits, bytes_max)

    @override
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._check(keys)
        self._backend.write(state_id, keys, values)

    def _check(self, keys: Sequence[bytes]) -> None:
        if keys and (keys[0] < self._first or keys[-1][:2] >= self._end):  # they are sorted
            msg = (
                "a subtask asked for state of another one's key groups. This is a defect of the operator; report it. "
                f"first_key={keys[0].hex()}, last_key={keys[-1].hex()}, groups={self._first.hex()}..{self._end.hex()}"
            )
            raise InternalError(msg)
