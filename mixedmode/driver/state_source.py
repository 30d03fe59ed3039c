"""The state of a job as a data source of Spark: `spark.read.format("mixedmode-state")`.

Planning chooses the epoch and takes a lease; all tasks read this epoch. A task reads a range of key groups, so the rows
of a key are in one partition. Equality with key columns is pushed down: whole keys become point reads, the first key
columns a prefix. Spark applies all filters again, so a filter that is not pushed down costs time only.

Invariant (tests/driver/test_state_source.py): the rows of all partitions together are those of read_state.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.checkpoint.types import ManifestIdentity
from mixedmode.config.outside_texts import whole_number
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange, group_range
from mixedmode.queryable import open_state
from mixedmode.queryable.snapshot import LEASE_SECONDS, StateSnapshot
from mixedmode.spark.frames import arrow_fields, spark_schema

__all__ = ["StateDataSource", "StateReader", "register_state_source"]

_KEYS_MAX = 10_000  # of point reads; more are found by a scan
_OPTIONS = ("path", "step", "name", "epoch", "partitions", "lease-seconds")
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_state_source(session: SparkSession) -> None:
    """Let a session read the format `mixedmode-state`, with filters that are pushed down to it."""
    if not hasattr(session, "dataSource"):  # a session of Spark Connect is of another class
        msg = f"register_state_source: session must be a SparkSession. found={type(session).__name__}"
        raise InvalidJobError(msg)
    session.dataSource.register(StateDataSource)
    session.conf.set(_PUSHDOWN, "true")  # Spark's default is false, and then refuses sources that can push down


@dataclass(frozen=True, slots=True)
class _Question:
    """The options of a read. `partitions`: None: one for each subtask of the step.

    `pinned`: what identifies the checkpoint that all tasks read; None before it is chosen.
    """

    place: str
    step: str
    name: str | None
    epoch: int | None
    partitions: int | None
    lease_seconds: float
    pinned: ManifestIdentity | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "_Question":
        for option in options:
            if option.lower() not in _OPTIONS:
                hint = did_you_mean(option, _OPTIONS)
                msg = f"mixedmode-state has no such option.{hint} Known: {', '.join(_OPTIONS)}. found={option}"
                raise InvalidJobError(msg)
        given = {name.lower(): value for name, value in options.items()}
        for needed, text in (("path", "load(FOLDER)"), ("step", "option('step', NAME)")):
            if not given.get(needed):
                msg = f"mixedmode-state needs the {needed}: add .{text}. `mixedmode state FOLDER` lists the steps."
                raise InvalidJobError(msg)
        numbers = {
            name: _number(name, given[name]) for name in ("epoch", "partitions", "lease-seconds") if name in given
        }
        partitions = numbers.get("partitions")
        if partitions == 0:
            msg = "a read has at least one partition. partitions=0"
            raise InvalidJobError(msg)
        lease_seconds = float(numbers.get("lease-seconds", LEASE_SECONDS))
        return cls(given["path"], given["step"], given.get("name"), numbers.get("epoch"), partitions, lease_seconds)

    def opened(self) -> StateSnapshot:
        """Return the state at the epoch.  Raise InvalidJobError if the epoch has another checkpoint than the plan."""
        state = open_state(self.place, epoch=self.epoch, lease_seconds=self.lease_seconds)
        if self.pinned in (None, state.manifest.identity):
            return state
        state.close()
        msg = (
            "the job has gone back, or begun anew, since the read was planned, so its epoch has another state now. "
            f"Load the state again. epoch={self.epoch}, folder={self.place}"
        )
        raise InvalidJobError(msg)


def _number(name: str, text: str) -> int:
    number = whole_number(text)
    if number is None:
        msg = f"this option of mixedmode-state is a whole number from 0 on. {name}={text}"
        raise InvalidJobError(msg)
    return number


class StateDataSource(DataSource):
    """The format `mixedmode-state`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._question = _Question.of(options)

    @classmethod
    @override
    def name(cls) -> str:
        return "mixedmode-state"

    @override
    def schema(self) -> StructType:
        with self._question.opened() as state:
            self._pin(state)
            fields = next(
                state.tables(self._question.step, name=self._question.name, groups=KeyGroupRange(0, 0))
            ).schema
        return spark_schema(list(fields))

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        with self._question.opened() as state:
            self._pin(state)
            key_fields = state.key_fields(self._question.step, self._question.name)
        return StateReader(self._question, schema, key_fields)

    def _pin(self, state: StateSnapshot) -> None:
        """Let all tasks read this epoch, and keep it for them."""
        self._question = replace(self._question, epoch=state.epoch, pinned=state.manifest.identity)
        state.keep_lease()


@dataclass(frozen=True)
class _Groups(InputPartition):
    """A partition: a range of key groups."""

    start: int
    end: int


@dataclass
class StateReader(DataSourceReader):
    """A read of a part of a step's state. Spark sends it to the tasks."""

    question: _Question
    spark_schema: StructType
    key_fields: tuple[pa.Field, ...]
    keys: list[tuple[Any, ...]] | None = None
    prefix: tuple[Any, ...] = ()
    wanted: dict[str, tuple[Any, ...]] = field(default_factory=dict)  #: {key column: the values that it may have}

    @override
    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Note which keys are wanted. Spark applies all filters itself, too."""
        for one in filters:
            match one:
                case EqualTo((name,), value):
                    self._want(name, (value,))
                case In((name,), values):
                    self._want(name, tuple(values))
                case _:
                    pass
        names = [each.name for each in self.key_fields]
        if names and all(name in self.wanted for name in names):
            keys = list(product(*(self.wanted[name] for name in names)))
            self.keys = keys if len(keys) <= _KEYS_MAX else None
        if self.keys is None:
            for name in names:
                if len(self.wanted.get(name, ())) != 1:
                    break
                self.prefix += self.wanted[name]
        return filters

    def _want(self, name: str, values: tuple[Any, ...]) -> None:
        """Note the values of a key column, if they are exact as they are: numbers without a fraction, and text."""
        kind = next((each.type for each in self.key_fields if each.name == name), None)
        if kind is None:
            return
        is_text = pat.is_string(kind) or pat.is_large_string(kind)
        if not all(type(value) is (str if is_text else int) for value in values):
            return
        if is_text or (
            pat.is_integer(kind) and all(-(2 ** (kind.bit_width - 1)) <= v < 2 ** (kind.bit_width - 1) for v in values)
        ):
            self.wanted.setdefault(name, tuple(dict.fromkeys(values)))

    @override
    def partitions(self) -> Sequence[InputPartition]:
        with self.question.opened() as state:  # also renews the lease for the tasks
            state.keep_lease()
            groups, subtasks = state.manifest.max_parallelism, state.subtasks(self.question.step)
        if self.keys is not None:
            return [_Groups(0, groups)]
        count = min(self.question.partitions or subtasks, groups)
        ranges = (group_range(number, parallelism=count, max_parallelism=groups) for number in range(count))
        return [_Groups(each.start, each.end) for each in ranges]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Groups), partition
        schema = pa.schema(arrow_fields(self.spark_schema))
        groups = KeyGroupRange(partition.start, partition.end)
        with self.question.opened() as state:
            for table in state.tables(
                self.question.step,
                keys=self.keys,
                prefix=self.prefix or None,
                name=self.question.name,
                groups=groups,
            ):
                yield from table.cast(schema).to_batches()
