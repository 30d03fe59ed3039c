"""A database table as an output: publishing an epoch is one transaction, which also records that it is published.

The rows of an epoch and the ledger's row that records it are committed together (ledger.py). So an epoch is published
completely and once. After a crash, a lost connection, or a commit without an answer, the ledger says whether it is
published. Staged files are deleted after that.

    manifest -> transaction: ledger locked; fenced? published? -> rows -> ledger -> COMMIT -> staged files deleted

The rows that an epoch replaces are saved in the same transaction (history.py). So going back to an older epoch is one
transaction, too: the table is as it was after that epoch, with the rows of every key.

Invariants (tests/tables/):
  I1  an epoch with rows is in the table exactly once, or not yet, however often publishing is interrupted and repeated
  I2  nothing is written by a start that a newer one has fenced, by another job, or over another checkpoint folder
  I3  after going back to an epoch, the table is as it was after that epoch; or it is unchanged, and an error says why
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from typing_extensions import override

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.contents import content_after
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.crash_points import reach
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.secrets import hidden
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.staged import StagedSink
from mixedmode.sinks.tables.batches import batches_of
from mixedmode.sinks.tables.database import CHANGED, Database, LostConnectionError, RefusedError, Shape, Transaction
from mixedmode.sinks.tables.history import Mark
from mixedmode.sinks.tables.ledger import (
    Entry,
    Writer,
    check_content,
    check_generation,
    check_may_prepare,
    is_published,
    new_entry,
    published,
)
from mixedmode.sinks.tables.refused_rows import check_keys, first_refused, refused
from mixedmode.sinks.tables.replacing import replace_rows
from mixedmode.sinks.tables.roll_back import mark_at, obstacle, prepare_history, roll_back
from mixedmode.time.window_range import ReplacedRows

__all__ = ["TableSink"]

#: waiting time before each retry; a server that is restarted is available after a few seconds
RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 4.0)

T = TypeVar("T")


class TableSink(StagedSink):
    """A table that is written by this output only."""

    can_roll_back = True
    cannot_report_published = False

    def __init__(
        self,
        database: Database,
        context: SinkContext,
        *,
        create: bool,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`create`: create what is missing. `sleep` waits for a number of seconds before a retry."""
        super().__init__(context.staging)
        self._database = database
        self._create = create
        self._sleep = sleep
        self._replaces = context.replaces
        self._retained = context.retained
        self._writer = Writer(
            context.job, context.name, "batch" if context.replaces else "continuous", "", context.generation
        )
        self._shape: Shape | None = None
        self._content: str | None = None  # the digest of the table, as this start has left it

    @override
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Create the table, or name every difference between it and what the job needs."""
        given = tuple(field for field in fields if field.name not in ("_op", EPOCH_COLUMN))
        own = () if key_columns else (pa.field(EPOCH_COLUMN, pa.int64()),)
        self._shape = shape = Shape((*given, *own), tuple(key_columns))
        writer = self._identified() if self._writer.generation else self._writer
        is_only_asked = not is_fresh and not writer.owner and not self._replaces

        def prepare(transaction: Transaction) -> None:
            self._prepare_ledger(transaction, may_create=self._create and not is_only_asked)
            entry = transaction.entry()
            differences = transaction.differences(shape)
            has_rows = differences is not None and transaction.has_rows()
            check_may_prepare(entry, writer, self._database.place, is_fresh=is_fresh, has_rows=has_rows)
            self._check_table(differences, is_fresh=is_fresh)
            if differences is None:
                transaction.create(shape)
            if is_only_asked:
                return
            if not self._replaces:
                prepare_history(transaction, shape, self._database.place, is_fresh=is_fresh, may_create=self._create)
            if entry is None or (is_fresh and not (self._replaces and has_rows)):
                entry = new_entry(writer, tuple(key_columns))
                transaction.put(entry)
            elif writer.generation > entry.generation:
                transaction.put(replace(entry, generation=writer.generation))
            self._content = entry.content

        self._patiently(prepare, creates=self._create and not is_only_asked)

    @override
    def is_new(self) -> bool:
        """Return True also for a table that was dropped or renamed."""
        return self._entry() is None

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Do nothing for an epoch without rows; but a batch run without rows leaves an empty table."""
        if not staged and not self._replaces:
            return
        shape, writer, place = self._shape, self._writer, self._database.place
        assert shape is not None, "a sink is prepared before it publishes"
        writer = writer if self._replaces else self._identified()

        def publish(transaction: Transaction) -> str:
            entry = transaction.entry()
            if is_published(entry, writer, epoch, place):
                assert entry is not None, "checked"
                return entry.content
            assert entry is not None, "checked"
            if not self._replaces:
                check_content(entry, self._content, epoch, place)
            content = content_after(entry.content, epoch, staged)
            if self._replaces:
                transaction.clear()
                self._apply(transaction, shape, epoch, staged)
            else:
                self._apply_and_save(transaction, entry, Mark(epoch, content), staged)
            differences = transaction.differences(shape)  # the written table stays locked against changes
            if differences:
                raise InvalidJobError(CHANGED.format(cause="; ".join(differences), place=place))
            transaction.put(published(entry, writer, epoch, content))
            reach("table-applied", epoch)
            return content

        try:
            self._content = self._patiently(publish)
        except RefusedError as error:  # from a constraint that is checked at the commit
            raise refused(error, epoch, self._database.place) from error
        reach("table-committed", epoch)
        self.delete_staged(staged)

    @override
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Look at the file first: whoever publishes it writes the ledger before deleting it."""
        found = file_problem(self.store, file.staged_path, size=file.bytes, checksum=file.checksum, reads=reads)
        parsed = output_paths.parse_staged_path(file.staged_path)
        assert parsed is not None, file
        if found is None:
            return None
        entry = self._entry()
        return None if entry is not None and entry.covers(parsed.epoch) else (file.staged_path, found)

    @override
    def newest_published(self) -> Epoch | None:
        entry = self._entry()
        return None if entry is None else entry.last_epoch

    @override
    def oldest_published(self) -> Epoch | None:
        entry = self._entry()
        return None if entry is None else entry.first_epoch

    @override
    def obstacle(self, manifest: Manifest) -> str | None:
        """Compare digests: they show whether the table is the result of other epochs with the same numbers."""
        entry, wanted = self._entry(), manifest.output_contents.get(self._writer.output)
        if entry is None or wanted is None:
            return None
        files = [file for file in manifest.outputs if file.sink == self._writer.output]
        mark = self._patiently(lambda transaction: mark_at(transaction, manifest.epoch))
        return obstacle(entry, manifest.epoch, wanted, mark, files=files, place=self._database.place)

    @override
    def roll_back(self, after: Epoch) -> int:
        """Roll back; a savepoint's restore takes the table over (generation 0)."""
        entry = self._entry()
        try:
            rows = 0 if entry is None else self._patiently(lambda transaction: self._roll_back(transaction, after))
        except RefusedError as error:
            msg = (
                "the table refuses rows that it had before, so the job cannot go back. Nothing was changed in it. "
                "Remove the constraint or trigger that was added since, and do the same again. "
                f"cause={hidden(str(error))}, epoch={after}, table={self._database.place}"
            )
            raise InvalidJobError(msg) from error
        return rows + self.delete_staged_after(after)

    @override
    def no_replacement(self, replaced: ReplacedRows) -> str | None:
        if not replaced.are_in_structs:
            return None
        return (
            "a database has the struct of the window as JSON. Select a bound of its own, such as window.start AS hour"
        )

    @override
    def replace_windows(self, rows: pa.Table, replaced: ReplacedRows, before: Epoch) -> None:
        shape, writer = self._shape, self._identified()
        assert shape is not None, "a sink is prepared before rows are replaced"

        def replace(transaction: Transaction) -> None:
            replace_rows(transaction, writer, shape, rows, replaced, before)
            reach("table-applied", before)

        try:
            self._patiently(replace)
        except RefusedError as error:
            msg = (
                "the table refuses a row of the windows, so nothing was replaced. Change the table, or the job. "
                f"cause={hidden(str(error))}, table={self._database.place}"
            )
            raise InvalidJobError(msg) from error

    def _roll_back(self, transaction: Transaction, after: Epoch) -> int:
        entry, writer = transaction.entry(), self._identified()
        if entry is None:
            return 0
        if writer.generation:
            check_generation(entry, writer, self._database.place)
        rows, content = roll_back(transaction, entry, after, self._database.place)
        transaction.put(entry.forget(after, writer, content))
        self._content = content
        return rows

    def _apply_and_save(self, transaction: Transaction, entry: Entry, mark: Mark, staged: Sequence[StagedFile]) -> None:
        """Write the rows of an epoch, and save what they replace in the history. An empty table has nothing to save."""
        shape, history = self._shape, transaction.history
        assert shape is not None, "prepared"
        if entry.last_epoch is not None and history.newest_mark(entry.last_epoch) is None:  # the history is new
            history.mark(Mark(entry.last_epoch, entry.content))
        saves = None if entry.last_epoch is None else mark.epoch
        self._apply(transaction, shape, mark.epoch, staged, saves=saves)
        history.mark(mark)
        if shape.key_columns:  # without a key, the history has only marks, which are small
            history.prune(Epoch(mark.epoch - self._retained))

    def _prepare_ledger(self, transaction: Transaction, *, may_create: bool) -> None:
        if transaction.has_ledger():
            return
        if may_create:
            transaction.create_ledger()
            return
        msg = (
            "the bookkeeping table is not there, by which every epoch is written once, and this output has "
            "create: false, or is not where it was. Create it, in the schema of the table, or set create: true: "
            f"{self._database.ledger_ddl}; table={self._database.place}"
        )
        raise InvalidJobError(msg)

    def _check_table(self, differences: Sequence[str] | None, *, is_fresh: bool) -> None:
        place = self._database.place
        if differences:
            msg = (
                "the table is not as this job needs it, and nothing was written: "
                f"{'; '.join(differences)}. Change the table, or the job; or name another table. table={place}"
            )
            raise InvalidJobError(msg)
        if differences is None and not is_fresh:
            msg = (
                "the job goes on from a checkpoint, and the table it has written so far is gone. Restore it with its "
                "row in _mixedmode, or give the job a new checkpointing.dir (it then starts from the beginning of its "
                f"sources). table={place}"
            )
            raise InvalidJobError(msg)
        if differences is None and not self._create:
            msg = f"there is no such table, and create: false says that it is yours. Create it first. table={place}"
            raise InvalidJobError(msg)

    def _apply(
        self,
        transaction: Transaction,
        shape: Shape,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        *,
        saves: Epoch | None = None,
    ) -> None:
        transaction.begin(shape, saves=saves)
        for rows in batches_of(self.store, staged, shape):
            check_keys(rows, shape, epoch, self._database.place)
            try:
                transaction.apply(rows)
            except RefusedError as error:
                found, row = first_refused(transaction, rows, error)
                raise refused(found, epoch, self._database.place, row) from error

    def _identified(self) -> Writer:
        """Return the writer with the id of this checkpoint folder."""
        if not self._writer.owner:
            self._writer = replace(self._writer, owner=self.owner())
        return self._writer

    def _entry(self) -> Entry | None:
        """Return the table's current row in the ledger; None if there is no row, ledger, table or database."""
        if not self._database.is_there():
            return None

        def entry(transaction: Transaction) -> Entry | None:
            return transaction.entry() if transaction.has_ledger() and transaction.has_table() else None

        return self._patiently(entry)

    def _patiently(self, work: Callable[[Transaction], T], *, creates: bool = False) -> T:
        """Run a transaction; while the database is unavailable, retry as RETRY_SECONDS says."""
        for seconds in (*RETRY_SECONDS, None):
            try:
                with self._database.transaction(creates=creates) as transaction:
                    return work(transaction)
            except LostConnectionError as error:
                if seconds is None:
                    msg = (
                        "the database cannot be reached, ended the connection, has no space left, or is locked by "
                        "another program, and repeating it did not help. What was committed is in the table once, or "
                        "is written when the job is started again. See that the database is there and takes "
                        "connections and writes, then start the job again. "
                        f"attempts={len(RETRY_SECONDS) + 1}, cause={hidden(str(error))}, table={self._database.place}"
                    )
                    raise RetryableError(msg) from error
                self._sleep(seconds)
        raise AssertionError
