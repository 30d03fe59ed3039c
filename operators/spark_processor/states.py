"""The state variables that a class of Spark gets from its handle, with the methods of Spark's.

Each is one declared state of a process function. A list with a time to live is a map by the number of the item, because
Spark drops the items of a list one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from mixedmode.operators.process.maps import MapState
from mixedmode.operators.process.states import ListState, State, ValueState
from mixedmode.operators.process.ttl import Ttl
from mixedmode.operators.spark_processor.columns import Columns, KeyColumns

__all__ = ["ExpiringListVariable", "ListVariable", "MapVariable", "ValueVariable", "Variable"]


class Variable:
    """A state variable. `state` is the declaration, and in tasks the handle of the current key's state.

    schemas: the columns of its values; of a map, those of its keys first.
    """

    state: State
    schemas: tuple[tuple[pa.Field, ...], ...]

    def bind(self, handle: Any) -> None:
        """Use the state of the keys of a task from now on."""
        self.state = handle


class ValueVariable(Variable):
    """One value of a key, as pyspark.sql.streaming.stateful_processor.ValueState."""

    state: ValueState[Any]

    def __init__(self, columns: Columns, ttl: Ttl | None) -> None:
        self.state = ValueState(columns.stored, ttl=ttl)
        self._columns, self.schemas = columns, (columns.fields,)

    def exists(self) -> bool:
        """Return whether there is a value."""
        return self.state.value is not None

    def get(self) -> tuple[Any, ...] | None:
        """Return the value, or None."""
        stored = self.state.value
        return None if stored is None else self._columns.load(stored)

    def update(self, newValue: Any) -> None:
        """Set the value."""
        self.state.value = self._columns.store(newValue)

    def clear(self) -> None:
        """Delete the value."""
        self.state.clear()


class _Lists(Variable, ABC):
    """A list of a key, as pyspark.sql.streaming.stateful_processor.ListState. Iterators see the list as it was."""

    def __init__(self, columns: Columns, where: str) -> None:
        self._columns, self.schemas = columns, (columns.fields,)
        self._where = where

    def exists(self) -> bool:
        """Return whether the list has an item."""
        return any(True for _ in self._stored())

    def get(self) -> Iterator[tuple[Any, ...]]:
        """Return the items, oldest first."""
        return iter([self._columns.load(one) for one in self._stored()])

    def put(self, newState: Iterable[Any]) -> None:
        """Replace the items. An empty list is an error, as in Spark."""
        items = self._checked(newState)
        self.clear()
        self._append(items)

    def appendValue(self, newState: Any) -> None:
        """Append an item."""
        self._append([self._columns.store(newState)])

    def appendList(self, newState: Iterable[Any]) -> None:
        """Append items. An empty list is an error, as in Spark."""
        self._append(self._checked(newState))

    @abstractmethod
    def clear(self) -> None:
        """Delete the items."""

    @abstractmethod
    def _stored(self) -> Iterable[Any]: ...

    @abstractmethod
    def _append(self, items: list[Any]) -> None: ...

    def _checked(self, values: Iterable[Any]) -> list[Any]:
        items = [self._columns.store(value) for value in values]
        if not items:
            msg = f"{self._where}: Spark writes no empty list to a list state. Call clear() instead."
            raise ValueError(msg)
        return items


class ListVariable(_Lists):
    """A list without a time to live."""

    state: ListState[Any]

    def __init__(self, columns: Columns, where: str) -> None:
        super().__init__(columns, where)
        self.state = ListState(columns.stored)

    def clear(self) -> None:
        """Delete the items."""
        self.state.clear()

    def _stored(self) -> Iterable[Any]:
        return self.state

    def _append(self, items: list[Any]) -> None:
        self.state.extend(items)


class ExpiringListVariable(_Lists):
    """A list whose items expire one by one: {number of the item: item}."""

    state: MapState[int, Any]

    def __init__(self, columns: Columns, ttl: Ttl, where: str) -> None:
        super().__init__(columns, where)
        self.state = MapState(int, columns.stored, ttl=ttl)

    def clear(self) -> None:
        """Delete the items."""
        self.state.clear()

    def _stored(self) -> Iterable[Any]:
        return self.state.values()

    def _append(self, items: list[Any]) -> None:
        first = max(self.state, default=-1) + 1
        for number, item in enumerate(items, first):
            self.state[number] = item


class MapVariable(Variable):
    """A map of a key, as pyspark.sql.streaming.stateful_processor.MapState. Iterators see the map as it was."""

    state: MapState[Any, Any]

    def __init__(self, keys: KeyColumns, columns: Columns, ttl: Ttl | None) -> None:
        self.state = MapState(keys.stored, columns.stored, ttl=ttl)
        self._keys, self._columns = keys, columns
        self.schemas = (keys.fields, columns.fields)

    def exists(self) -> bool:
        """Return whether the map has an entry."""
        return len(self.state) > 0

    def getValue(self, key: Any) -> Any:
        """Return the value of a key, as a Row, or None."""
        stored = self.state.get(self._keys.store(key))
        return None if stored is None else self._columns.load_row(stored)

    def containsKey(self, key: Any) -> bool:
        """Return whether the map has the key."""
        return self._keys.store(key) in self.state

    def updateValue(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self.state[self._keys.store(key)] = self._columns.store(value)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Return the entries, in the order of their keys. Spark has no order."""
        return iter([(self._keys.load(key), self._columns.load(value)) for key, value in self.state.items()])

    def keys(self) -> Iterator[tuple[Any, ...]]:
        """Return the keys, in order."""
        return iter([self._keys.load(key) for key in self.state])

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Return the values, in the order of their keys."""
        return iter([self._columns.load(value) for value in self.state.values()])

    def removeKey(self, key: Any) -> None:
        """Delete the entry of a key; do nothing if there is none."""
        self.state.pop(self._keys.store(key), None)

    def clear(self) -> None:
        """Delete all entries."""
        self.state.clear()
