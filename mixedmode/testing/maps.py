"""A harness for map functions: epoch by epoch, over any number of subtasks, with their lists kept between epochs.

As for keyed steps, the code is the engine's: the operator, the dealing of rows, the redistribution, the limits and
the refusals are those of a job.
"""

import copy
from collections.abc import Mapping
from typing import Any, Self

import msgspec
import pyarrow as pa

from mixedmode.config.arguments import of_type
from mixedmode.config.execution import MAX_PARALLELISM_LIMIT
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.map import MAP_FUNCTION, KeptList, MapOperator
from mixedmode.operators.map.dealing import dealt
from mixedmode.operators.map.items import ItemCodec
from mixedmode.process import MapContext, MapFunction
from mixedmode.state.lists import Lists, check_size, redistribute, rescaling_problem
from mixedmode.testing.functions import class_source, declared_output
from mixedmode.testing.outputs import Row
from mixedmode.testing.schemas import SchemaLike, schema_of
from mixedmode.testing.settings import HarnessArguments, Instant, Settings, instant_us
from mixedmode.testing.step import Rows, table_of
from mixedmode.time import MIN_TIME_US

_WHERE = "MapHarness"
_KIND = b"mixedmode test lists 1\n"


class MapHarness:
    """A harness for `job.map(...)`, with the same arguments where a job has them.

    function: a class; or `package.module:Class`, imported as in a job; or an object, which is copied for each subtask
        and epoch.
    schema: the columns of the records, as Spark DDL, {column: type}, or a pyarrow.Schema.
    output: the columns of the rows that the function emits, in the same forms.
    args: arguments for the class, by name.
    parallelism: the number of subtasks that share the records.
    clock: processing time, in microseconds since 1970 or a datetime.
    backlog: True if the first epoch is backlog, as in a job. Unlike in other harnesses, each `feed` is an epoch even
    then.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        function: type[MapFunction] | MapFunction | str,
        *,
        schema: SchemaLike,
        output: SchemaLike,
        args: Mapping[str, Any] | None = None,
        parallelism: int = 1,
        clock: Instant = 0,
        backlog: bool = False,
    ) -> None:
        self._schema = schema_of(schema, where=f"{_WHERE}: schema")
        self._operator = MapOperator(
            operator_id="map-1",  # as in a job that does not name its step
            function=class_source(MAP_FUNCTION, function, args, _WHERE),
            record_fields=tuple(self._schema),
            output_fields=declared_output(output, f"{_WHERE}: output"),
        )
        self._declared = self._operator.declaration()
        given = HarnessArguments(parallelism=parallelism, clock=clock, backlog=backlog)
        self._settings = Settings.of({**given, "max_parallelism": MAX_PARALLELISM_LIMIT}, where=_WHERE)
        self._is_backlog = self._settings.backlog
        self._begin(())

    def _begin(self, lists: Lists) -> None:
        self._lists = lists
        self._epoch = 0
        self._new: list[pa.Table] = []

    def feed(self, rows: Rows, *, watermark: Instant | None = None) -> None:
        """Run one epoch over these records, which are dealt out to the subtasks.

        rows: {column: value} each, or a pyarrow.Table. watermark: the job's watermark at the start of the epoch.
        Raises what a job would raise; the harness is then unchanged.
        """
        table = table_of(rows, self._schema, where=_WHERE)
        watermark_us = MIN_TIME_US if watermark is None else instant_us(watermark, where=f"{_WHERE}: watermark")
        pieces = dict(dealt(table, parallelism=self.parallelism, turn=self._epoch))
        before = redistribute(self._lists, self._declared.redistribution, self.parallelism)
        kept, new = [], list[pa.Table]()
        for subtask, items in enumerate(before):
            context = self._context(subtask, watermark_us)
            given = [pieces[subtask]] if subtask in pieces else []
            for output in self._operator.run(iter(given), context, items):
                if isinstance(output, KeptList):
                    kept.append(output.items)
                else:
                    new.append(output)
        if self._declared.keeps_list:
            check_size(self._operator.operator_id, tuple(kept), self._declared.redistribution)
            self._lists = tuple(kept)
        self._new += new
        self._epoch += 1
        self._is_backlog = False

    def take(self) -> list[Row]:
        """Return the rows since the last call, epoch by epoch, and within an epoch subtask by subtask."""
        tables, self._new = self._new, []
        return [row for table in tables for row in table.to_pylist()]

    @property
    def parallelism(self) -> int:
        """The number of subtasks of the next epoch."""
        return self._settings.parallelism

    @property
    def lists(self) -> tuple[tuple[Any, ...], ...]:
        """The lists of the subtasks after the last epoch; () before the first one."""
        codec = ItemCodec(self._operator.function.create().item_type)
        return tuple(tuple(codec.unpack(items)) for items in self._lists)

    def rescale(self, parallelism: int) -> None:
        """Use this number of subtasks from the next epoch on. Raises InvalidJobError where a job would be refused."""
        settings = self._settings.at(parallelism, where=_WHERE)
        lists, redistribution = self._lists, self._declared.redistribution
        problem = rescaling_problem(self._operator.operator_id, lists, redistribution, settings.parallelism)
        if problem is not None:
            raise InvalidJobError(problem)
        self._settings = settings

    def snapshot(self) -> bytes:
        """Return what a checkpoint would hold now, which is the lists, for `restore`."""
        return _KIND + msgspec.msgpack.encode((self._epoch, self._lists))

    def restore(self, snapshot: bytes, *, parallelism: int | None = None) -> Self:
        """Return another harness of this step that continues from a snapshot.

        parallelism: the new harness's; by default this harness's.
        Raises InvalidJobError where a job would be refused, and CorruptStateError for bytes that are not a snapshot.
        """
        of_type(snapshot, bytes, f"{_WHERE}: snapshot", "what snapshot() returned")
        try:
            data = snapshot.removeprefix(_KIND) if snapshot.startswith(_KIND) else b""
            epoch, lists = msgspec.msgpack.decode(data, type=tuple[int, Lists])
        except msgspec.MsgspecError as error:
            msg = (
                "these bytes are no snapshot of a map harness of this version. Give what snapshot() returned. "
                f"bytes={len(snapshot)}, cause={error}"
            )
            raise CorruptStateError(msg) from error
        self._operator.check_items(lists)
        other = copy.copy(self)
        other._begin(lists)  # noqa: SLF001 - it is of this class
        other._epoch, other._is_backlog = epoch, False  # noqa: SLF001 - as above
        other.rescale(self.parallelism if parallelism is None else parallelism)
        return other

    def _context(self, subtask: int, watermark_us: int) -> MapContext:
        return MapContext(
            operator_id=self._operator.operator_id,
            subtask=subtask,
            parallelism=self.parallelism,
            epoch=self._epoch,
            is_backlog=self._is_backlog,
            processing_time=self._settings.clock,
            current_watermark=watermark_us,
        )
