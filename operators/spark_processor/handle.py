"""The handle that `init` of a class of Spark gets: it declares states, and registers timers.

`init` is called when an object is made: to plan the step, and in each task before the first record. The states that it
asks for are those of the step. Timers of the current key are in a state of their own, too, so that they can be listed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process.context import Context
from mixedmode.operators.process.states import State, ValueState
from mixedmode.operators.process.ttl import Ttl
from mixedmode.operators.spark_processor.columns import Columns, KeyColumns, columns_of
from mixedmode.operators.spark_processor.settings import TimeMode
from mixedmode.operators.spark_processor.states import (
    ExpiringListVariable,
    ListVariable,
    MapVariable,
    ValueVariable,
    Variable,
)

__all__ = ["Handle", "Timers"]

#: the states of the timers; a class cannot ask for them, as Spark refuses names that begin with _
_TIMERS = {"EventTime": "_event_timers", "ProcessingTime": "_processing_timers"}
_NAME_BYTES_MAX = 200
V = TypeVar("V", bound=Variable)


class Timers:
    """The timers of the current key, in milliseconds. Without a time mode, each call is an error, as in Spark."""

    def __init__(self, time_mode: TimeMode) -> None:
        self._time_mode = time_mode
        self.state: ValueState[Any] = ValueState(list[int])
        self._context: Context | None = None  #: of the current call
        self._firing_ms: int | None = None  #: the timer of the current call
        self._listed_ms: int | None = None  #: the same, until the call deletes it

    def begin(self, context: Context, *, firing_ms: int | None = None) -> None:
        """Begin a call.  firing_ms: its timer."""
        self._context, self._firing_ms, self._listed_ms = context, firing_ms, firing_ms

    def register(self, expiry_ms: int) -> None:
        """Register a timer; do nothing if there is one at this time."""
        context, times = self._current(), self.state.value or []
        if expiry_ms == self._firing_ms:  # it is deleted when the call has ended, as in Spark
            return
        if self._time_mode == "EventTime":
            context.timers.register_event_time_timer(_micros(expiry_ms))
        else:
            context.timers.register_processing_time_timer(_micros(expiry_ms))
        if expiry_ms not in times:
            self.state.value = sorted([*times, expiry_ms])

    def delete(self, expiry_ms: int) -> None:
        """Delete a timer; do nothing if there is none."""
        context = self._current()
        if self._time_mode == "EventTime":
            context.timers.delete_event_time_timer(_micros(expiry_ms))
        else:
            context.timers.delete_processing_time_timer(_micros(expiry_ms))
        self.take(expiry_ms)
        if expiry_ms == self._listed_ms:
            self._listed_ms = None

    def times(self) -> list[int]:
        """Return the times of the timers, in order. A timer is among them until its call has ended, as in Spark."""
        self._current()
        times = list(self.state.value or [])
        return times if self._listed_ms is None else sorted([*times, self._listed_ms])

    def take(self, expiry_ms: int) -> None:
        """Remove a timer from the state."""
        self.state.value = [time for time in self.state.value or [] if time != expiry_ms] or None

    def _current(self) -> Context:
        if self._time_mode == "None":
            msg = "a class has no timers without a time mode. Set the step's `time-mode`. time-mode=None"
            raise RuntimeError(msg)
        if self._context is None:
            msg = "timers belong to a key. Use them in handleInputRows and handleExpiredTimer only"
            raise RuntimeError(msg)
        return self._context


class Handle:
    """As pyspark.sql.streaming.StatefulProcessorHandle. States can be asked for until `close` is called."""

    def __init__(self, time_mode: TimeMode, label: str) -> None:
        self._time_mode = time_mode
        self._label = label
        self._is_open = True
        self._variables: dict[str, Variable] = {}
        self._names: dict[str, str] = {}  #: {state of the step: name that the class gave}
        self._deleted: set[str] = set()
        self.timers = Timers(time_mode)

    # --- the interface for classes of Spark ---------------------------------------------------------------------------

    def getValueState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: int | None = None,
    ) -> ValueVariable:
        """Return a state variable with one value."""
        where = self._where(stateName)
        columns = Columns(columns_of(schema, where), where)
        return self._add(stateName, lambda: ValueVariable(columns, self._ttl(ttlDurationMs, where)))

    def getListState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: int | None = None,
    ) -> ListVariable | ExpiringListVariable:
        """Return a state variable with a list."""
        where = self._where(stateName)
        columns, ttl = Columns(columns_of(schema, where), where), self._ttl(ttlDurationMs, where)
        if ttl is None:
            return self._add(stateName, lambda: ListVariable(columns, where))
        return self._add(stateName, lambda: ExpiringListVariable(columns, ttl, where))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Any,
        valueSchema: Any,
        ttlDurationMs: int | None = None,
    ) -> MapVariable:
        """Return a state variable with a map."""
        where = self._where(stateName)
        keys = KeyColumns(columns_of(userKeySchema, f"{where}: the key"), f"{where}: the key")
        columns = Columns(columns_of(valueSchema, where), where)
        return self._add(stateName, lambda: MapVariable(keys, columns, self._ttl(ttlDurationMs, where)))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Register a timer of the current key."""
        self.timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Delete a timer of the current key."""
        self.timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """Return the times of the current key's timers, in order."""
        return iter(self.timers.times())

    def deleteIfExists(self, stateName: str) -> None:
        """Note that a state is no longer wanted. A start refuses to drop a state that is stored."""
        self._check_open(stateName)
        if any(name == stateName for name in self._names.values()):
            msg = (
                f"{self._where(stateName)}: `init` asks for this state and deletes it, and in Spark each micro-batch "
                "would begin without it. Remove one of the two calls."
            )
            raise InvalidJobError(msg)
        self._deleted.add(stateName)

    # --- for the adapter ----------------------------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, State]:
        """The states of the step, by name."""
        found = {name: variable.state for name, variable in self._variables.items()}
        if self._time_mode != "None":
            found[_TIMERS[self._time_mode]] = self.timers.state
        return found

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The state variables, by the names that the class gave."""
        return {self._names[name]: variable for name, variable in self._variables.items()}

    def close(self) -> None:
        """End `init`. From now on no state can be added."""
        self._is_open = False

    def bind(self, name: str, handle: Any) -> None:
        """Use the state of the keys of a task from now on.  name: as in `states`."""
        if name in self._variables:
            self._variables[name].bind(handle)
        else:
            self.timers.state = handle

    # --- inside -------------------------------------------------------------------------------------------------------

    def _add(self, given: str, make: Callable[[], V]) -> V:
        self._check_open(given)
        name = _name_of(given)
        if not given or given.startswith("_") or len(name) > _NAME_BYTES_MAX:
            msg = f"{self._where(given)}: a state has a name, which is short and does not begin with _. Choose another."
            raise InvalidJobError(msg)
        if name in self._names or given in self._deleted:
            msg = f"{self._where(given)}: `init` names a state twice. Give each state a name of its own."
            raise InvalidJobError(msg)
        variable = make()
        self._variables[name] = variable
        self._names[name] = given
        return variable

    def _check_open(self, given: str) -> None:
        if not self._is_open:
            msg = f"{self._where(given)}: states can be asked for in `init` only, as in Spark. Move the call there."
            raise RuntimeError(msg)

    def _where(self, given: str) -> str:
        return f"state {given!r} of {self._label}"

    def _ttl(self, duration_ms: int | None, where: str) -> Ttl | None:
        if duration_ms is None:
            return None
        if self._time_mode != "ProcessingTime":
            msg = (
                f"{where}: a time to live goes by processing time, as in Spark. Set the step's time-mode to "
                f"ProcessingTime, or leave ttlDurationMs out. time-mode={self._time_mode}, ttlDurationMs={duration_ms}"
            )
            raise InvalidJobError(msg)
        if duration_ms <= 0:
            msg = f"{where}: ttlDurationMs is a positive number of milliseconds. ttlDurationMs={duration_ms}"
            raise InvalidJobError(msg)
        return Ttl(timedelta(milliseconds=duration_ms))


def _name_of(given: str) -> str:
    """Return the name of a state as letters, digits and _: `per user` is `per_x20_user`."""
    return re.sub(r"[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):x}_", given)


def _micros(expiry_ms: Any) -> int:
    if not isinstance(expiry_ms, int):
        msg = f"a timer has a whole number of milliseconds since 1970. found={expiry_ms!r}"
        raise TypeError(msg)
    return expiry_ms * 1000
