"""The state of a class of Spark, a StatefulProcessor, as that of the process step that calls it.

Spark has a table for each state variable, and one for the timers. Here, the single values of a key are one row. So each
table makes a partial row of each key, and the rows of a key are merged (`ProcessorRows`). Entries of maps and timers
are entries of their own. Values go through the variables of the class, which check them as if the class had set them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.keys import encode_keys, key_groups
from mixedmode.operators.process import ProcessOperator
from mixedmode.operators.process.codec import KeyCodec
from mixedmode.operators.process.due import KEYS
from mixedmode.operators.process.function import AdaptedFunction
from mixedmode.operators.process.key_state import KeyState
from mixedmode.operators.process.maps import MAP_STATE_ID, MapState
from mixedmode.operators.process.states import UNSET
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS, STORED, timer_key
from mixedmode.spark_state.conversions import Columns, Conversion
from mixedmode.spark_state.entries import Entries, entries_of
from mixedmode.spark_state.keys import KeyColumns
from mixedmode.state import MemoryBackend

__all__ = ["ProcessorRows", "Timers", "Variable", "adapter_of"]

_US_PER_MS = 1000
_TIMER_STATES = {
    "EventTime": ("_event_timers", EVENT_TIMERS),
    "ProcessingTime": ("_processing_timers", PROCESSING_TIMERS),
}


def adapter_of(operator: ProcessOperator) -> Any:
    """Return the adapter of the class of a step; None if its class is none of Spark."""
    found = operator.function.create()
    return found if isinstance(found, AdaptedFunction) else None


@dataclass(frozen=True, slots=True)
class ProcessorRows:
    """Merges partial rows of a key, which different tables of Spark have made."""

    operator: ProcessOperator

    def merged(self, packed: Sequence[bytes]) -> bytes:
        """Return the row with all values of these rows."""
        states = adapter_of(self.operator).declared()
        codec = KeyCodec(states)
        first, *others = map(codec.unpack, packed)
        for row in others:
            for name, state in states.items():
                if isinstance(state, MapState):
                    _add_map(first, row, name, has_ttl=state.ttl_ms is not None)
                else:
                    _add_value(first, row, name, has_ttl=state.ttl_ms is not None)
        found = codec.pack(first)
        assert found is not None, "a partial row has a value"
        return found


@dataclass(frozen=True, slots=True)
class Variable(Conversion):
    """A state variable. The values are those of Spark's table: a value, a list, or a map's key and value.

    kind: "value", "list" or "map". has_ttl: each value is a struct of it and of the time when it expires.
    """

    operator: ProcessOperator
    key: KeyColumns
    name: str
    kind: str
    has_ttl: bool

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        loading = _Loading(self.operator, self.key.columns(keys), max_parallelism)
        given = zip(*(_python_values(column) for column in values), strict=True)
        for number, value in enumerate(given):
            loading.begin(number)
            self._set(loading, *value)
            loading.end()
        return loading.entries()

    def _set(self, loading: "_Loading", *value: Any) -> None:
        variable = loading.variables[self.name]
        if self.kind == "map":
            variable.updateValue(value[0], loading.clocked(variable, value[1], has_ttl=self.has_ttl))
        elif self.kind == "value":
            variable.update(loading.clocked(variable, value[0], has_ttl=self.has_ttl))
        else:
            for item in value[0]:
                variable.appendValue(loading.clocked(variable, item, has_ttl=self.has_ttl))


@dataclass(frozen=True, slots=True)
class Timers(Conversion):
    """The timers of a class. passed_ms: the time up to which timers have fired."""

    operator: ProcessOperator
    key: KeyColumns
    time_mode: str
    passed_ms: int

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        loading = _Loading(self.operator, self.key.columns(keys), max_parallelism)
        state, state_id = _TIMER_STATES[self.time_mode]
        stored = []
        for number, time_ms in enumerate(values[0].to_pylist()):
            if time_ms <= self.passed_ms:
                msg = (
                    "a timer in Spark's state is due, and has not fired: the class has registered it for a time that "
                    "was over. A job would never fire it. Let Spark run one more batch, and import again. "
                    f"timer_ms={time_ms}, time_ms={self.passed_ms}"
                )
                raise InvalidJobError(msg)
            loading.begin(number)
            loading.handles[state].value = [time_ms]
            loading.end()
            group = loading.group_of(number)
            stored.append(timer_key(group, state_id, time_ms * _US_PER_MS, loading.encoded[number]))
        return [*loading.entries(), entries_of(state_id, stored, [STORED] * len(stored))]


class _Loading:
    """The rows of a batch of keys, which are set as a class sets them."""

    def __init__(self, operator: ProcessOperator, keys: Sequence[pa.Array], max_parallelism: int) -> None:
        adapter = adapter_of(operator)
        states = adapter.declared()
        self._key = KeyState(0)
        backend = MemoryBackend({})  # nothing is stored yet
        self.handles: dict[str, Any] = {
            name: state.bound_to(name, self._key, backend)
            if isinstance(state, MapState)
            else state.bound(name, self._key)
            for name, state in states.items()
        }
        for name, handle in self.handles.items():
            adapter.bind(name, handle)
        self.variables = adapter.variables
        self._codec = KeyCodec(states)
        encoded = encode_keys(keys, operator.key_schema)
        self._groups = key_groups(encoded, max_parallelism=max_parallelism)
        self.encoded: list[bytes] = encoded.to_pylist()
        self._maps = [handle for handle in self.handles.values() if isinstance(handle, MapState)]
        self._rows: list[tuple[bytes, bytes]] = []
        self._entries: list[tuple[bytes, bytes | None]] = []
        self._number = 0

    def begin(self, number: int) -> None:
        """Begin with the key `number`."""
        self._number = number
        self._key.row = self._codec.new_row()
        for state in self._maps:
            state.begin(self._stored(MAP_STATE_ID), [])

    def end(self) -> None:
        """Collect the row of the key, and its entries."""
        for state in self._maps:
            self._entries += state.end()
        packed = self._codec.pack(self._key.row)
        self._codec.check(packed)
        if packed is not None:
            self._rows.append((self._stored(KEYS), packed))

    def clocked(self, variable: Any, value: Any, *, has_ttl: bool) -> Any:
        """Return a value of Spark. With a time to live, set the clock so that it expires when Spark says."""
        if not has_ttl:
            return value
        own, expires_ms = value
        self._key.now_ms = expires_ms - variable.state.ttl_ms
        return own

    def group_of(self, number: int) -> bytes:
        """Return the key group of a key, as two bytes."""
        return int(self._groups[number]).to_bytes(2, "big")

    def entries(self) -> list[Entries]:
        """Return all rows and entries. A key may have several partial rows."""
        found = [entries_of(KEYS, *_columns(self._rows))]
        return [*found, entries_of(MAP_STATE_ID, *_columns(self._entries))] if self._entries else found

    def _stored(self, state_id: int) -> bytes:
        return b"%b%c%b" % (self.group_of(self._number), state_id, self.encoded[self._number])


def _columns(rows: Sequence[tuple[bytes, Any]]) -> tuple[list[bytes], list[Any]]:
    return [key for key, _ in rows], [value for _, value in rows]


def _add_map(row: Any, other: Any, name: str, *, has_ttl: bool) -> None:
    """Add the entries of a map: their number, and when the first one expires."""
    setattr(row, f"s_{name}", getattr(row, f"s_{name}") + getattr(other, f"s_{name}"))
    if has_ttl:
        times = [time for time in (getattr(row, f"e_{name}"), getattr(other, f"e_{name}")) if time is not UNSET]
        setattr(row, f"e_{name}", min(times, default=UNSET))


def _add_value(row: Any, other: Any, name: str, *, has_ttl: bool) -> None:
    """Add a value that one of the rows has. Timers are lists, of which both may have a part."""
    value = getattr(other, f"v_{name}")
    if value is UNSET:
        return
    before = getattr(row, f"v_{name}")
    is_timers = name in {state for state, _ in _TIMER_STATES.values()}
    assert before is UNSET or is_timers, name
    setattr(row, f"v_{name}", value if before is UNSET else sorted([*before, *value]))
    if has_ttl:
        setattr(row, f"e_{name}", getattr(other, f"e_{name}"))


def _python_values(column: pa.Array) -> Iterator[Any]:
    return (_python_value(value, column.type) for value in column.to_pylist())


def _python_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value as a class has it: tuples of structs, and dictionaries of maps."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return tuple(_python_value(value[field.name], field.type) for field in kind)
    if pa.types.is_list(kind):
        return [_python_value(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return {_python_value(name, kind.key_type): _python_value(one, kind.item_type) for name, one in value}
    return value
