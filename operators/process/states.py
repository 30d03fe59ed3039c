"""States that hold one value per key: ValueState, ListState, ReducingState, AggregatingState.

A state is declared as an attribute of the function's class. Through `self`, the function uses the state of the current
key. The declaration and the function's handle are of the same class, so that editors and type checkers know the type
of `self.count.value`. Binding copies the declaration and sets its KeyState.

The value at the end of the key's turn is stored. So a list that is changed in place is stored, too.
"""

import copy
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any, Generic, Self, TypeVar, overload

import msgspec
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process.descriptions import describe, is_immutable, written
from mixedmode.operators.process.key_state import UNBOUND, KeyState
from mixedmode.operators.process.scalars import scalar_of
from mixedmode.operators.process.ttl import Ttl

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

UNSET: Any = msgspec.UNSET


class State:
    """Base class of all states: a name, a type, a time to live."""

    kind = ""
    name = ""

    def __init__(self, value_type: Any, ttl: Ttl | None) -> None:
        self.value_type = value_type
        self.description = describe(value_type)
        given: object = ttl
        if not isinstance(given, Ttl | None):
            msg = f"the ttl of a state is a Ttl, as in ValueState(int, ttl=Ttl('7d')). found={given!r}"
            raise InvalidJobError(msg)
        self.ttl_ms = None if ttl is None else ttl.duration_ms
        self.refreshes_on_read = ttl is not None and ttl.refresh == "read-and-write"
        self._key: KeyState = UNBOUND

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def bound(self, name: str, key: KeyState) -> Self:
        """Return a copy of the state, as the handle of one function object."""
        handle = copy.copy(self)
        handle.name = name
        handle._key = key  # noqa: SLF001  # a copy of this object
        return handle

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as JSON, for the manifest; see incompatibilities."""
        return {"kind": self.kind, "type": self.description, "ttl_ms": self.ttl_ms}


class SingleState(State):
    """A state whose value is one attribute of the key's row, `v_<name>`; `e_<name>` is its expiry in ms."""

    def __init__(self, value_type: Any, ttl: Ttl | None) -> None:
        super().__init__(value_type, ttl)
        self.scalar = scalar_of(value_type)
        self._exact = None if self.scalar is None else self.scalar.exact
        self._value_attribute = self._expiry_attribute = ""

    @override
    def bound(self, name: str, key: KeyState) -> Self:
        handle = super().bound(name, key)
        handle._value_attribute = f"v_{name}"  # noqa: SLF001  # a copy of this object
        handle._expiry_attribute = f"e_{name}"  # noqa: SLF001
        return handle

    def clear(self) -> None:
        """Delete the value."""
        row = self._key.row
        setattr(row, self._value_attribute, UNSET)
        if self.ttl_ms is not None:
            setattr(row, self._expiry_attribute, UNSET)

    def _get(self) -> Any:
        """Return the value, or UNSET."""
        row = self._key.row
        value = getattr(row, self._value_attribute)
        if self.refreshes_on_read and value is not UNSET:
            setattr(row, self._expiry_attribute, self._key.now_ms + self.ttl_ms)  # type: ignore[operator]
        return value

    def _put(self, value: Any) -> None:
        """Set a value that has been checked."""
        row = self._key.row
        setattr(row, self._value_attribute, value)
        if self.ttl_ms is not None:
            setattr(row, self._expiry_attribute, self._key.now_ms + self.ttl_ms)

    def _checked(self, value: Any) -> Any:
        return value if self.scalar is None else self.scalar.convert(value)


class ValueState(SingleState, Generic[T]):
    """One value of a type: `count = ValueState(int, default=0)`, then `self.count.value += 1`.

    Without a default, the value of a key without a stored value is None. Raise InvalidJobError if values of the type
    cannot be stored.
    """

    kind = "value"

    @overload
    def __init__(self: "ValueState[T]", value_type: type[T], *, default: T, ttl: Ttl | None = None) -> None: ...
    @overload
    def __init__(self: "ValueState[T | None]", value_type: type[T], *, ttl: Ttl | None = None) -> None: ...
    @overload  # to a type checker, `int | None` is not a type[T]
    def __init__(
        self: "ValueState[Any]", value_type: object, *, default: Any = None, ttl: Ttl | None = None
    ) -> None: ...
    def __init__(self, value_type: Any, *, default: Any = None, ttl: Ttl | None = None) -> None:
        super().__init__(value_type, ttl)
        if default is not None:
            default = _checked_default(default, value_type)
        self._default = default
        # a mutable default is decoded again for each key, from its bytes
        is_shared = default is None or is_immutable(value_type)
        self.default_bytes = None if is_shared else msgspec.msgpack.encode(default)

    @property
    def value(self) -> T:
        """The key's value, or the default. Setting None clears the value, unless the type includes None."""
        row = self._key.row  # inlined `_get`: this access dominates the time of a function
        value = getattr(row, self._value_attribute)
        if value is UNSET:
            return self._default if self.default_bytes is None else self._new_default()  # type: ignore[no-any-return]
        if self.refreshes_on_read:
            setattr(row, self._expiry_attribute, self._key.now_ms + self.ttl_ms)  # type: ignore[operator]
        return value  # type: ignore[no-any-return]

    @value.setter
    def value(self, value: T) -> None:
        if value.__class__ is not self._exact:
            if value is None and self._default is None:
                self.clear()
                return
            value = self._checked(value)
        row = self._key.row
        setattr(row, self._value_attribute, value)
        if self.ttl_ms is not None:
            setattr(row, self._expiry_attribute, self._key.now_ms + self.ttl_ms)

    def _new_default(self) -> Any:
        value = msgspec.msgpack.decode(self.default_bytes, type=self.value_type)  # type: ignore[arg-type]
        self._put(value)
        return value


class ListState(SingleState, MutableSequence[T]):
    """A list: `seen = ListState(str)`, then `self.seen.append(...)`, `for x in self.seen`, `len(self.seen)`.

    It supports all operations of a list. It is read and written as a whole; with a ttl, it expires as a whole.
    """

    kind = "list"

    def __init__(self, item_type: type[T], *, ttl: Ttl | None = None) -> None:
        super().__init__(list[item_type], ttl)  # type: ignore[valid-type]
        self._item = scalar_of(item_type)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items()[index]

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        items = self._items()
        if isinstance(index, slice):
            items[index] = [self._checked_item(each) for each in value]
        else:
            items[index] = self._checked_item(value)
        self._store(items)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._store(items)

    def __len__(self) -> int:
        return len(self._items())

    def insert(self, index: int, value: T) -> None:
        """Insert like list.insert."""
        items = self._items()
        items.insert(index, self._checked_item(value))
        self._store(items)

    def append(self, value: T) -> None:
        """Append like list.append."""
        items = self._items()
        items.append(self._checked_item(value))
        self._store(items)

    def replace(self, values: Iterable[T]) -> None:
        """Replace all values with `values`."""
        self._store([self._checked_item(value) for value in values])

    def clear(self) -> None:
        """Delete all values."""
        SingleState.clear(self)

    def __repr__(self) -> str:
        return repr(self._items())

    def _items(self) -> list[T]:
        """Return the key's list, or a new list that is not yet stored in the row."""
        items = self._get()
        return [] if items is UNSET else items

    def _store(self, items: list[T]) -> None:
        if items:
            self._put(items)
        else:
            SingleState.clear(self)

    def _checked_item(self, value: Any) -> Any:
        return value if self._item is None else self._item.convert(value)


class ReducingState(SingleState, Generic[T]):
    """The reduction of all values added: `highest = ReducingState(int, reduce=max)`, then `self.highest.add(5)`.

    reduce: (reduction, value) -> reduction, called from the second value on. `value` is None until a value was added.
    """

    kind = "reducing"

    def __init__(self, value_type: type[T], *, reduce: Callable[[T, T], T], ttl: Ttl | None = None) -> None:
        super().__init__(value_type, ttl)
        self._reduce = reduce

    @property
    def value(self) -> T | None:
        """The reduction of all values added, or None."""
        value = self._get()
        return None if value is UNSET else value

    def add(self, value: T) -> None:
        """Add a value."""
        before = self._get()
        self._put(self._checked(value if before is UNSET else self._reduce(before, self._checked(value))))


class AggregatingState(SingleState, Generic[T, A, R]):
    """An aggregate with an accumulator that may have another type than the values.

        mean = AggregatingState(Mean, create=Mean, add=Mean.plus, result=Mean.mean)

    accumulator_type: the type that is stored. create() -> accumulator. add(accumulator, value) -> accumulator: the same
    object changed in place, or a new one. result(accumulator) -> the result, which is `value`. `value` is None until a
    value was added.
    """

    kind = "aggregating"

    def __init__(
        self,
        accumulator_type: type[A],
        *,
        create: Callable[[], A],
        add: Callable[[A, T], A],
        result: Callable[[A], R],
        ttl: Ttl | None = None,
    ) -> None:
        super().__init__(accumulator_type, ttl)
        self._create, self._add, self._result = create, add, result

    @property
    def value(self) -> R | None:
        """The result over all values added, or None."""
        accumulator = self._get()
        return None if accumulator is UNSET else self._result(accumulator)

    def add(self, value: T) -> None:
        """Add a value."""
        accumulator = self._get()
        self._put(self._checked(self._add(self._create() if accumulator is UNSET else accumulator, value)))


def _checked_default(default: Any, value_type: Any) -> Any:
    scalar = scalar_of(value_type)
    try:
        if scalar is not None:
            return scalar.convert(default)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(default), type=value_type)
    except (TypeError, msgspec.MsgspecError) as error:
        values = f"type={written(value_type)}, default={default!r:.100}"
        msg = f"the default of a state does not fit its type: {error}. {values}"
        raise InvalidJobError(msg) from error
