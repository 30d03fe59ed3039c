"""A harness for process functions."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, cast, get_args

import pyarrow as pa
from typing_extensions import override

from mixedmode.config.arguments import of_type
from mixedmode.connectors.calls import Duration
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.classes import ClassKind, ClassSource, GivenClass
from mixedmode.operators.process import (
    CO_PROCESS_FUNCTION,
    PROCESS_FUNCTION,
    AnyFunction,
    CoProcessOperator,
    OnError,
    ProcessOperator,
)
from mixedmode.operators.spark_processor import FunctionSource, ProcessorStep, RowsAs, TimeMode
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.process import KeyedCoProcessFunction
from mixedmode.testing.harness import Harness
from mixedmode.testing.pairs import PairOfInputs
from mixedmode.testing.schemas import SchemaLike, schema_of
from mixedmode.testing.settings import FunctionArguments, HarnessArguments, Instant, one_of
from mixedmode.testing.step import Rows, Step, columns_of, key_fields

_WHERE = "FunctionHarness"
F = TypeVar("F")
T = TypeVar("T")


class FunctionHarness(Harness):
    """A harness for `job.key_by(...).process(...)`, with the same arguments where a job has them.

    It is also one for `stream.co_process(...)`: `schema` is a pair then, of the left and of the right. Both inputs have
    the columns of `key_by` and of `event_time`, which is required. `feed(rows, right=rows)` takes the records of both.

    function: a class, also a StatefulProcessor of Spark; or `package.module:Class`, imported as in a job; or an object,
        which is copied for each subtask and epoch.
    key_by: one column or several.
    schema: the columns of the records, as Spark DDL, {column: type}, or a pyarrow.Schema.
    output: the columns of the rows that the function emits, in the same forms.
    args: arguments for the class, by name.
    outputs: {tag: columns} of the function's side outputs.
    on_error: `fail`, `skip` or `dead-letter`, as in a job.
    event_time: a timestamp column.
    See HarnessArguments and FunctionArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        function: type | AnyFunction | str,
        *,
        key_by: str | Sequence[str],
        schema: "SchemaLike | tuple[SchemaLike, SchemaLike]",
        output: SchemaLike,
        args: Mapping[str, Any] | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnError = "fail",
        event_time: str | None = None,
        **settings: Unpack[FunctionArguments],
    ) -> None:
        one_of(on_error, get_args(OnError), where=f"{_WHERE}: on_error")
        left, right = _pair_of(schema) if isinstance(schema, tuple) else (schema, None)
        records, keys = schema_of(left, where=f"{_WHERE}: schema"), columns_of(key_by, where=f"{_WHERE}: key_by")
        fields = key_fields(records, keys, where=f"{_WHERE}: key_by")
        self._pair: PairOfInputs | None = None
        if right is not None:
            others = schema_of(right, where=f"{_WHERE}: schema[1]")
            self._pair = PairOfInputs.checked(records, others, keys, event_time, where=_WHERE)
        output_fields = declared_output(output, f"{_WHERE}: output")
        source = _source(function, args, is_pair=right is not None)
        given: dict[str, Any] = dict(settings)
        if right is None:
            time_mode: Any = _chosen(given, "time_mode", TimeMode)
            rows_as: Any = _chosen(given, "rows_as", RowsAs)
            about = ProcessorStep(time_mode, rows_as, fields, tuple(records), output_fields)
            source = FunctionSource(source, about)
            source.check_step(has_event_time=event_time is not None, unused=["outputs"] if outputs else [])
        settings_of_step: dict[str, Any] = {
            "operator_id": "process-1" if right is None else "co-process-1",  # as in a job that does not name its step
            "function": source,
            "key_schema": KeySchema(fields),
            "record_fields": tuple(records) if self._pair is None else self._pair.record_fields,
            "output_fields": output_fields,
            "function_outputs": {
                tag: declared_output(columns, f"{_WHERE}: outputs: {tag}")
                for tag, columns in by_name(outputs, f"{_WHERE}: outputs").items()
            },
            "on_error": on_error,
            "has_event_time": event_time is not None,
        }
        operator = (
            ProcessOperator(**settings_of_step)
            if self._pair is None
            else CoProcessOperator(**settings_of_step, left_columns=len(records))
        )
        step = Step.checked(
            operator,
            records if self._pair is None else self._pair.schema,
            key_by=keys,
            arguments=records.names if self._pair is None else self._pair.arguments,
            event_time=event_time,
            identity=step_fingerprint("process" if right is None else "co-process", fields),
            where=_WHERE,
        )
        operator.state_schema()  # instantiates the function, which checks it
        super().__init__(step, cast("HarnessArguments", given))

    @override
    def feed(self, rows: Rows = (), *, right: Rows = (), watermark: Instant | None = None, after: Duration = 0) -> None:
        """Run one epoch over these records, as Harness.feed does.  right: those of the right of two inputs."""
        if self._pair is not None:
            rows = self._pair.table(rows, right)
        elif right:
            msg = f"{_WHERE}: this function has one input. Give the harness a pair of schemas for two."
            raise InvalidJobError(msg)
        super().feed(rows, watermark=watermark, after=after)


@dataclass(frozen=True, slots=True)
class _Copies(ClassSource[F]):
    """Copies of an object, so that only state survives an epoch."""

    function: F

    @property
    @override
    def label(self) -> str:
        return f"{type(self.function).__module__}:{type(self.function).__qualname__}"

    @override
    def load(self) -> type[F]:
        return type(self.function)

    @override
    def create(self) -> F:
        return copy.deepcopy(self.function)


def class_source(
    kind: ClassKind[F], function: type[F] | F | str, args: Mapping[str, Any] | None, where: str
) -> ClassSource[F]:
    """Return the function of a harness: a class, `package.module:Class`, or an object.

    Raises InvalidJobError, beginning with `where`, for another function, for arguments that are no dictionary, and for
    those of an object.
    """
    wanted = "a class, its name as package.module:Class, or an object of such a class"
    of_type(function, (str, type, *kind.bases), f"{where}: function", wanted)
    given = by_name(args, f"{where}: args")
    if isinstance(function, str):
        return kind.named(function, given)
    if isinstance(function, type):
        return GivenClass(kind, function, given)
    if given:
        msg = f"{where}: an object has its arguments already. Give its class, or leave `args` out. args={given}"
        raise InvalidJobError(msg)
    return _Copies(function)


def declared_output(given: SchemaLike, where: str) -> tuple[pa.Field, ...]:
    """Return the columns of an output. Raises InvalidJobError, beginning with `where`."""
    schema = schema_of(given, where=where)
    taken = [name for name in schema.names if name.startswith("_")]
    if taken:
        msg = f"{where}: names that start with _ are kept for columns such as _op. Choose another. column={taken[0]}"
        raise InvalidJobError(msg)
    return tuple(schema)


def by_name(given: Mapping[str, T] | None, where: str) -> dict[str, T]:
    """Return an argument that is a dictionary by name; None is an empty one. Raise InvalidJobError for another."""
    found = of_type({} if given is None else given, Mapping, where, "a dictionary by name")
    return {of_type(name, str, f"a name in {where}", "text"): one for name, one in found.items()}


def _chosen(given: dict[str, Any], name: str, known: Any) -> str | None:
    """Remove and return an argument that is one of the texts `known`; None if it is not there."""
    found = given.pop(name, None)
    return None if found is None else one_of(found, get_args(known), where=f"{_WHERE}: {name}")


def _pair_of(schemas: "tuple[SchemaLike, ...]") -> "tuple[SchemaLike, SchemaLike]":
    if len(schemas) != 2:
        msg = f"{_WHERE}: schema must be columns, or a pair of them for two inputs. found={schemas!r:.200}"
        raise InvalidJobError(msg)
    return schemas


def _source(function: Any, args: Mapping[str, Any] | None, *, is_pair: bool) -> ClassSource[AnyFunction]:
    given: type[object] = function if isinstance(function, type) else type(function)
    if issubclass(given, get_args(AnyFunction)) and issubclass(given, KeyedCoProcessFunction) != is_pair:
        has = "has two inputs. Give a pair of schemas" if not is_pair else "has one input"
        msg = f"{_WHERE}: the function {has}. class={given.__qualname__}"
        raise InvalidJobError(msg)
    return class_source(CO_PROCESS_FUNCTION if is_pair else PROCESS_FUNCTION, function, args, _WHERE)
