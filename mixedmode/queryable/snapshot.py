"""A snapshot of a job's state at one epoch, and reads of it.

A snapshot is a manifest and the immutable files that it names. So all reads of a snapshot see one committed epoch,
whatever the job does meanwhile, and a rescale between two epochs changes nothing. A savepoint is read in the same way.

A read opens only the files of the key groups that it needs: a point read those of one key group. The files are links in
a private folder of this process, or copies if the store is on another file system.

Invariants (tests/queryable/test_reads.py):
  I1  an answer equals the state that an operator had after the epoch, at every parallelism and after merges
  I2  the pages of a scan together are the whole scan, each key in one page
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Lease, Manifest, OperatorState
from mixedmode.config.arguments import checked_arguments
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.keys import KeyGroupRange
from mixedmode.queryable.checkpoints import Place, manifest_at, state_log
from mixedmode.queryable.cursor import cursor_of, epoch_of_page, position_of
from mixedmode.queryable.entries import EntryReader, ReaderPlace
from mixedmode.queryable.fetched import FetchedRuns, SharedRuns
from mixedmode.queryable.folders import reader_folder
from mixedmode.queryable.keys import places_of_keys, question_of
from mixedmode.queryable.leased import LEASE_SECONDS, check_lease, leased
from mixedmode.queryable.parts import Moment, StateView
from mixedmode.queryable.points import PlainRows, read_plain
from mixedmode.queryable.spans import Question
from mixedmode.queryable.views import views_of

__all__ = ["LEASE_SECONDS", "StateAnswer", "StateSnapshot", "open_state", "read_state"]

_STATELESS = (
    "this step keeps no state: each of its rows is final when it is emitted, so read them from the job's output. "
    "step={step}"
)
_CACHE_BYTES = 8 * 1024 * 1024  # of each open range of key groups
_ATTEMPTS = 5  # a new attempt, with the newest checkpoint, if the job drops the one that is being leased


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """Rows of a state at an epoch. `next`: where the next page begins, for `after`; None if there is no more.

    `name` is the part of the state that was read. `missing` are the positions, from 0, of those of the `keys` that have
    no row, ascending; () if `limit` has cut the answer.
    """

    table: pa.Table
    epoch: int
    step: str
    name: str
    next: str | None
    missing: tuple[int, ...] = ()

    def as_table(self) -> pa.Table:
        """Return the rows. The schema's metadata have `mixedmode.epoch`, `.step` and `.name`, perhaps `.next`.

        If there are missing keys, `.missing` has their positions as a JSON array.
        """
        missing = json.dumps(self.missing) if self.missing else None
        facts = {"epoch": str(self.epoch), "step": self.step, "name": self.name, "next": self.next, "missing": missing}
        metadata = {f"mixedmode.{name}": value for name, value in facts.items() if value is not None}
        return self.table.replace_schema_metadata(metadata)


class StateSnapshot:
    """The state of all steps after one epoch. Thread-safe. Close it, or use it as a context manager."""

    def __init__(
        self, store: ObjectStore, manifest: Manifest, lease: Lease | None = None, shared: SharedRuns | None = None
    ) -> None:
        """lease: what keeps the checkpoint. The snapshot gives it up when it is closed.

        shared: the local files of snapshots that follow each other; None: this one has a folder of its own.
        """
        self._leases, self._lease = Leases(store), lease
        self._store = store
        self._manifest = manifest
        self._moment = Moment(manifest.watermark_us, manifest.clock_ms)
        self._stack = ExitStack()
        if shared is None:
            folder = self._stack.enter_context(reader_folder())
            fetched = FetchedRuns(store, folder / "fetched")
        else:
            folder, fetched = self._stack.enter_context(shared.new_folder()), shared.fetched
        self._entries = EntryReader(fetched, manifest.max_parallelism, folder, _CACHE_BYTES)
        self._stack.callback(self._give_up)
        self._stack.callback(self._entries.close)
        self._views: dict[str, dict[str, StateView]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Delete the local files of the snapshot, after the reads under way, and give up its lease."""
        self._stack.close()

    @checked_arguments
    def renew(self, seconds: float = LEASE_SECONDS) -> bool:
        """Keep the checkpoint from now on for `seconds`. Return False if the job has dropped it, or after `close`.

        Runs that the snapshot has opened can be read even then. A savepoint needs no lease; renewing it does nothing.
        """
        check_lease(seconds)
        if self._entries.is_closed:
            return False
        if self._lease is None:
            return True
        before = self._lease
        self._lease = leased(self._leases, self._manifest, seconds)
        if self._lease is not None:
            self._leases.give_up([before])
        return self._lease is not None

    def keep_lease(self) -> None:
        """Let the lease last beyond `close`, until it ends by itself: for a reader that comes back for another page."""
        self._lease = None

    def places(self) -> tuple[ReaderPlace, ...]:
        """Return the places in the store that reads have used, for `prepare` of a later snapshot."""
        return self._entries.used()

    def prepare(self, places: Collection[ReaderPlace]) -> None:
        """Open the files of these places, and make the views of their steps, before the first read."""
        self._entries.prepare(self._manifest.operators, places)
        steps = {step for step, *_ in places}
        for operator in self._manifest.operators:
            if operator.operator_id in steps:
                self._views_of(operator)

    def _give_up(self) -> None:
        if self._lease is not None:
            with suppress(RetryableError):  # it ends by itself
                self._leases.give_up([self._lease])

    @property
    def epoch(self) -> int:
        """The epoch of every answer."""
        return self._manifest.epoch

    @property
    def manifest(self) -> Manifest:
        """The manifest of the epoch."""
        return self._manifest

    @property
    def steps(self) -> tuple[str, ...]:
        """The keyed steps of the job."""
        return tuple(operator.operator_id for operator in self._manifest.operators)

    @checked_arguments
    def names(self, step: str) -> tuple[str, ...]:
        """Return the names of the parts of a step's state, the default first; () if the step keeps no state."""
        return tuple(self._views_of(self._operator(step)))

    @checked_arguments
    def key_fields(self, step: str, name: str | None = None) -> tuple[pa.Field, ...]:
        """Return the key columns of a part of a step's state; () if the step has no key."""
        return self._view(self._operator(step), name).key_fields

    @checked_arguments
    def read(
        self,
        step: str,
        *,
        keys: Sequence[Any] | None = None,
        prefix: Any = None,
        name: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> StateAnswer:
        """Return rows of a step's state, in the order of the store. Keys without state have no row: they are `missing`.

        keys: only these keys, each the value of the key column, or a tuple of the values of all key columns, or a
        mapping. prefix: only keys that begin with these values. name: the part of the state; None: the default of
        `names`. limit: at most this many keys, or windows, or timers. after: `next` of the previous page.

        Raise InvalidJobError for an unknown step or name, or for unsuitable keys.
        """
        operator = self._operator(step)
        view = self._view(operator, name)
        question = self._question(view, keys, prefix)
        if limit is not None and limit < 1:
            msg = f"a page has at least one key. limit={limit}"
            raise InvalidJobError(msg)
        position = None if after is None else position_of(after, self._manifest)
        page = self._entries.page(operator, view, question, limit, position)
        following = None if page.next is None else cursor_of(self._manifest, page.next)
        missing: tuple[int, ...] = ()
        if question.keys is not None and following is None:
            missing = _without_rows(places_of_keys(page.table, view.key_fields, question.keys))
        return StateAnswer(page.table, self.epoch, step, view.part.name, following, missing)

    def read_keys(
        self, step: str, keys: Sequence[Any], name: str | None = None
    ) -> tuple[StateAnswer, list[Sequence[int]]]:
        """Return the rows of some keys, and the positions of the rows of each key. The rest is as in `read`."""
        operator = self._operator(step)
        view = self._view(operator, name)
        question = self._question(view, keys, None)
        assert question.keys is not None, question
        page = self._entries.page(operator, view, question, None, None)
        places = places_of_keys(page.table, view.key_fields, question.keys)
        return StateAnswer(page.table, self.epoch, step, view.part.name, None, _without_rows(places)), places

    def plain_rows(self, step: str, texts: Sequence[str], name: str | None = None) -> PlainRows | None:
        """Return the rows of keys in texts, without a table; None if a key or the part is not plain (points.py).

        Then `read_keys` has the answer. The rest is as in `read`.
        """
        operator = self._operator(step)
        view = self._view(operator, name)
        return read_plain(self._entries, operator, view, texts, max_parallelism=self._manifest.max_parallelism)

    def tables(
        self,
        step: str,
        *,
        groups: KeyGroupRange,
        keys: Sequence[Any] | None = None,
        prefix: Any = None,
        name: str | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the rows of a range of key groups piece by piece, at least one table. The rest is as in `read`."""
        operator = self._operator(step)
        view = self._view(operator, name)
        yield from self._entries.tables(operator, view, self._question(view, keys, prefix), groups)

    @checked_arguments
    def subtasks(self, step: str) -> int:
        """Return the number of subtasks that a step had in the epoch."""
        return self._operator(step).parallelism

    def _question(self, view: StateView, keys: Sequence[Any] | None, prefix: Any) -> Question:
        return question_of(keys, prefix, view.key_fields, max_parallelism=self._manifest.max_parallelism)

    def _operator(self, step: str) -> OperatorState:
        for operator in self._manifest.operators:
            if operator.operator_id == step:
                return operator
        if step in {state.operator_id for state in self._manifest.list_states}:
            msg = f"this step has no key: it keeps a list per subtask, which cannot be asked. step={step}"
            raise InvalidJobError(msg)
        if step in _steps_of(self._store):
            raise InvalidJobError(_STATELESS.format(step=step))
        known = ", ".join(self.steps) or "none"
        msg = f"the job has no keyed step {step}.{did_you_mean(step, self.steps)} Its keyed steps: {known}."
        raise InvalidJobError(msg)

    def _views_of(self, operator: OperatorState) -> dict[str, StateView]:
        if operator.operator_id not in self._views:
            self._views[operator.operator_id] = views_of(operator.state_schema, self._moment)
        return self._views[operator.operator_id]

    def _view(self, operator: OperatorState, name: str | None) -> StateView:
        views = self._views_of(operator)
        if not views:
            raise InvalidJobError(_STATELESS.format(step=operator.operator_id))
        if name is None:
            return next(iter(views.values()))
        if name not in views:
            msg = (
                f"the state of step {operator.operator_id} has no part {name}.{did_you_mean(name, views)} "
                f"Its parts: {', '.join(views)}."
            )
            raise InvalidJobError(msg)
        return views[name]


def _without_rows(places: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the positions of the keys that have no row.  places: of the rows of each key."""
    return tuple(at for at, own in enumerate(places) if not own)


@checked_arguments
def open_state(directory: Place, *, epoch: int | None = None, lease_seconds: float = LEASE_SECONDS) -> StateSnapshot:
    """Open the state in a checkpoint folder or savepoint, at an epoch; None: the newest one.

    lease_seconds: how long the job keeps the checkpoint for this reader, at most an hour; 0: no lease, for a folder in
    which this reader cannot write. `close` ends the lease earlier, and `renew` makes it last longer.

    Raise InvalidJobError for a folder without checkpoints or an unknown epoch, RetryableError if there is none yet.
    """
    return opened_snapshot(state_log(directory), epoch, lease_seconds)


def opened_snapshot(
    log: CheckpointLog,
    epoch: int | None,
    lease_seconds: float,
    shared: SharedRuns | None = None,
    found: Manifest | None = None,
) -> StateSnapshot:
    """Open the state in a folder, as open_state does.  shared: as of StateSnapshot.

    found: the manifest of the epoch, if the caller has just read it.
    """
    check_lease(lease_seconds)
    if lease_seconds == 0 or log.store.exists(paths.SAVEPOINT):
        return StateSnapshot(log.store, found or manifest_at(log, epoch), shared=shared)
    for _ in range(_ATTEMPTS):
        manifest, found = found or manifest_at(log, epoch), None
        lease = leased(Leases(log.store), manifest, lease_seconds)
        if lease is not None:
            return StateSnapshot(log.store, manifest, lease, shared)
    msg = f"the job drops its checkpoints faster than a reader can keep one. Read again. folder={log.store.url}"
    raise RetryableError(msg)


@checked_arguments
def read_state(
    directory: Place,
    step: str,
    *,
    epoch: int | None = None,
    keys: Sequence[Any] | None = None,
    prefix: Any = None,
    name: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> pa.Table:
    """Return the state of a step as a table; its schema's metadata have the epoch as `mixedmode.epoch`.

    directory: a checkpoint folder or a savepoint, or its URL. The other arguments are those of StateSnapshot.read. A
    further page is read at the epoch of the page before, whose lease lasts for five minutes. Raise the errors of
    open_state and StateSnapshot.read.
    """
    if epoch is None and after is not None:
        epoch = epoch_of_page(after)
    with open_state(directory, epoch=epoch) as snapshot:
        answer = snapshot.read(step, keys=keys, prefix=prefix, name=name, limit=limit, after=after)
        if answer.next is not None:
            snapshot.keep_lease()
    return answer.as_table()


def _steps_of(store: ObjectStore) -> frozenset[str]:
    """Return all keyed steps of a job, also those without state."""
    if store.exists(paths.SAVEPOINT):
        identity = read_savepoint(store).job
    else:
        stored = CheckpointLog(store).read_identity()
        assert stored is not None, "a checkpoint folder"
        identity = stored
    return frozenset(identity.steps)
