"""MapState: a dictionary per key whose entries are stored one by one.

The key's row holds the number of stored entries, which decides how they are read:
  none   nothing is read; this is so for every new key, and so in the backlog
  few    all entries are read, in one read for many keys
  many   only the entries that the function accesses are read

State layout: stored key = key group | 3 | key | length of the state's name u8 | name | map key as msgpack;
value = version u8 (1: no expiry; 2: expiry in ms i64, big-endian) | map value as msgpack.

Invariants (tests/operators/process/test_maps.py):
  I1  a MapState behaves like a dict, whichever of its entries are stored, read or new
  I2  entries are iterated in key order, NaN last, so the order does not depend on when an entry was stored
"""

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from typing import Any, Self, TypeVar

import msgspec
from typing_extensions import override

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.process.codec import UNSTORABLE
from mixedmode.operators.process.descriptions import describe, is_immutable, mixes_numbers, written
from mixedmode.operators.process.key_state import KeyState
from mixedmode.operators.process.map_keys import encoder, in_order, one_form
from mixedmode.operators.process.scalars import scalar_of
from mixedmode.operators.process.states import UNSET, State
from mixedmode.operators.process.ttl import Ttl
from mixedmode.state import KeyedStateBackend

K = TypeVar("K")
V = TypeVar("V")

MAP_STATE_ID = 3
_PLAIN, EXPIRING = b"\x01", b"\x02"
EXPIRY_BYTES = 8
_MISSING: Any = object()
_OF_ONE_FORM = (int, str, bytes, bool)  # types whose equal values have equal bytes


class MapState(State, MutableMapping[K, V]):
    """A dictionary: `visits = MapState(str, int)`, then `self.visits["page"] = 1`, `"page" in self.visits`.

    It supports all operations of a dict. It iterates in key order, so all keys must have one comparable type. With a
    ttl, each entry expires separately. Values that are changed in place are stored, too.
    """

    kind = "map"

    def __init__(self, key_type: type[K], value_type: type[V], *, ttl: Ttl | None = None) -> None:
        super().__init__(value_type, ttl)
        self.key_description = describe(key_type)
        if mixes_numbers(self.key_description):
            msg = (
                "the numbers in the keys of a map state have one type, because 1, 1.0 and True are one key to Python, "
                f"and would be several in the state. Declare one of the types. type={written(key_type)}"
            )
            raise InvalidJobError(msg)
        self._key_scalar, self._value_scalar = scalar_of(key_type), scalar_of(value_type)
        self._changes_in_place = not is_immutable(value_type)
        self._encode = msgspec.msgpack.Encoder().encode
        self._has_forms = key_type not in _OF_ONE_FORM
        self._decode_key = msgspec.msgpack.Decoder(key_type).decode
        self._decode_value = msgspec.msgpack.Decoder(value_type).decode
        self._backend: KeyedStateBackend | None = None
        self._prefix = b""
        self._is_complete = True  #: True if every stored entry is in `_stored`
        self._stored: dict[K, bytes | None] = {}  #: the stored entries that were read; None: not stored
        self._entries: dict[K, V] = {}  #: current, decoded; other entries, unless gone, are as stored
        self._expiry: dict[K, int] = {}  #: when entries expire, in ms
        self._gone: dict[K, bool] = {}  #: entries that were deleted or have expired

    @override
    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"key": self.key_description}

    def bound_to(self, name: str, key: KeyState, backend: KeyedStateBackend) -> Self:
        """Return a copy as `bound` does. The copy reads the entries of the key from `backend`."""
        handle = self.bound(name, key)
        handle._backend = backend  # noqa: SLF001  # a copy of itself
        handle._end_turn()  # noqa: SLF001  # containers of its own
        return handle

    # --- the interface for functions ----------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        key = self._checked_key(key)
        value = self._find(key)
        if value is _MISSING:
            raise KeyError(key)
        if self.refreshes_on_read:
            self._touch(key)
        if self._changes_in_place and self._key.journal is not None:
            self._save(key, value)
        return value  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        key = self._checked_key(key)
        if self._value_scalar is not None:
            value = self._value_scalar.convert(value)
        self._put(key, value)

    def __delitem__(self, key: K) -> None:
        key = self._checked_key(key)
        if self._find(key) is _MISSING:
            raise KeyError(key)
        self._drop(key)

    def __contains__(self, key: object) -> bool:
        return self._find(self._checked_key(key)) is not _MISSING

    def __iter__(self) -> Iterator[K]:
        self._read_all()
        return iter(sorted(self._current(), key=in_order))

    def __len__(self) -> int:
        self._read_all()
        return sum(1 for _ in self._current())

    def clear(self) -> None:
        """Delete all entries."""
        self._read_all()
        for key in list(self._current()):
            self._drop(key)

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    # --- the turn of a key --------------------------------------------------------------------------------------------

    def begin(self, key_prefix: bytes, stored: "Iterable[tuple[bytes, bytes]] | None") -> None:
        """Begin a key's turn. `stored`: (stored key, value) of all maps of the key; None if they were not read."""
        name = self.name.encode()
        self._prefix = key_prefix + bytes([len(name)]) + name
        if stored is not None:
            self._take_in(stored)
        self._is_complete = stored is not None or self._stored_count() == 0

    def end(self) -> list[tuple[bytes, bytes | None]]:
        """End the key's turn. Return (stored key, new value or None) of the changed entries, in any order.

        Raise one of UNSTORABLE if an entry cannot be stored.
        """
        changed = {**dict.fromkeys(self._entries), **dict.fromkeys(self._gone)}
        writes = []
        if changed:
            self._read_missing([key for key in changed if key not in self._stored])
            for key in changed:
                value = self._packed(key)
                if value != self._stored.get(key):
                    writes.append((self._stored_key(key), value))
            self._count(changed)
        self._end_turn()
        return writes

    def drop_expired(self) -> None:
        """Read all entries, drop the expired ones, and recompute when the first entry expires."""
        self._read_all()
        for key in self._stored:
            self._find(key)

    def check(self) -> None:
        """Raise one of UNSTORABLE unless all changes in the journal can be stored. They can still be undone."""
        for entries, key, _ in self._key.journal or ():
            if entries is self._entries:
                self._stored_key(key)
                self._packed(key)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        self._stored, self._entries, self._expiry, self._gone = {}, {}, {}, {}

    def _checked_key(self, key: Any) -> Any:
        self._key.check_turn()
        if self._key_scalar is not None:
            key = self._key_scalar.convert(key)
            return one_form(key) if self._has_forms else key
        with suppress(*UNSTORABLE):  # it is told at the end of the turn
            return one_form(self._decode_key(encoder(key)))
        return key

    def _find(self, key: K) -> Any:
        """Return the current value, decoded, or _MISSING."""
        value = self._entries.get(key, _MISSING)
        if value is not _MISSING or key in self._gone:
            return value
        packed = self._stored.get(key)
        if packed is None:
            if self._is_complete or key in self._stored:
                return _MISSING
            self._read_missing([key])
            packed = self._stored[key]
        return _MISSING if packed is None else self._unpack(key, packed)

    def _unpack(self, key: K, packed: bytes) -> Any:
        """Decode a stored entry and keep it; drop it if it has expired."""
        start = 1
        if packed[:1] == EXPIRING:
            start += EXPIRY_BYTES
            expiry_ms = int.from_bytes(packed[1:start], "big", signed=True)
            if self.ttl_ms is not None:
                if expiry_ms <= self._key.now_ms:
                    self._gone[key] = True
                    return _MISSING
                self._expiry[key] = expiry_ms
        elif packed[:1] != _PLAIN:
            raise CorruptStateError(_damaged(self.name, f"version {packed[0]}"))
        elif self.ttl_ms is not None:  # the entry was stored before the state had a ttl
            self._expiry[key] = self._key.now_ms + self.ttl_ms
        try:
            value = self._decode_value(packed[start:])
        except msgspec.MsgspecError as error:
            raise CorruptStateError(_damaged(self.name, str(error))) from error
        self._entries[key] = value
        return value

    def _put(self, key: K, value: V) -> None:
        self._key.before(self._entries, key)
        self._entries[key] = value
        if key in self._gone:
            self._key.before(self._gone, key)
            del self._gone[key]
        self._touch(key)

    def _touch(self, key: K) -> None:
        if self.ttl_ms is not None:
            self._key.before(self._expiry, key)
            self._expiry[key] = self._key.now_ms + self.ttl_ms

    def _drop(self, key: K) -> None:
        self._key.before(self._entries, key)
        self._entries.pop(key, None)
        self._key.before(self._gone, key)
        self._gone[key] = True

    def _save(self, key: K, value: V) -> None:
        """Save a copy of a value for `undo`, before the function gets it and may change it in place."""
        assert self._key.journal is not None
        self._key.journal.append((self._entries, key, self._decode_value(self._encode(value))))

    def _current(self) -> Iterator[K]:
        """Return the keys of all entries; all of them were read."""
        for key in {**self._stored, **self._entries}:
            if self._find(key) is not _MISSING:
                yield key

    def _packed(self, key: K) -> bytes | None:
        if key in self._gone or key not in self._entries:
            return None
        data = self._encode(self._entries[key])
        if self._value_scalar is None:
            self._decode_value(data)
        expiry_ms = self._expiry.get(key)
        if expiry_ms is None:
            return _PLAIN + data
        return EXPIRING + expiry_ms.to_bytes(EXPIRY_BYTES, "big", signed=True) + data

    def _read_all(self) -> None:
        self._key.check_turn()
        if self._is_complete:
            return
        assert self._backend is not None
        found = self._backend.scan_prefixes(MAP_STATE_ID, [self._prefix])
        self._take_in(zip(found.keys, found.values, strict=True))
        self._is_complete = True

    def _take_in(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        start = len(self._prefix)
        for stored_key, value in stored:
            if stored_key.startswith(self._prefix):
                self._stored[self._map_key(stored_key[start:])] = value

    def _read_missing(self, keys: list[K]) -> None:
        """Read the stored entries of these map keys."""
        if self._is_complete or not keys:
            self._stored.update(dict.fromkeys(keys))
            return
        assert self._backend is not None
        by_stored_key = {self._stored_key(key): key for key in keys}
        ordered = sorted(by_stored_key)
        for stored_key, value in zip(ordered, self._backend.read(MAP_STATE_ID, ordered), strict=True):
            self._stored[by_stored_key[stored_key]] = value

    def _stored_key(self, key: K) -> bytes:
        packed = encoder(key)
        if self._key_scalar is None:
            self._decode_key(packed)  # raises if a part of the key has another type
        return self._prefix + packed

    def _map_key(self, packed: bytes) -> Any:
        try:
            key = self._decode_key(packed)
            return one_form(key) if self._has_forms else key
        except msgspec.MsgspecError as error:
            raise CorruptStateError(_damaged(self.name, str(error))) from error

    def _stored_count(self) -> int:
        return getattr(self._key.row, f"s_{self.name}")  # type: ignore[no-any-return]

    def _count(self, changed: Iterable[K]) -> None:
        """Update the row: the number of stored entries, and the time when the first of them expires."""
        row, size = self._key.row, self._stored_count()
        for key in changed:
            is_there = key in self._entries and key not in self._gone
            size += is_there - (self._stored[key] is not None)
        setattr(row, f"s_{self.name}", size)
        if self.ttl_ms is None:
            return
        first = min(self._expiry.values(), default=UNSET)
        known = getattr(row, f"e_{self.name}")
        if known is not UNSET and not self._knows_every_expiry():  # an unread entry may expire earlier
            first = known if first is UNSET else min(first, known)
        setattr(row, f"e_{self.name}", UNSET if size == 0 else first)

    def _knows_every_expiry(self) -> bool:
        return self._is_complete and all(k in self._expiry or k in self._gone for k, v in self._stored.items() if v)


def _damaged(name: str, reason: str) -> str:
    return (
        "an entry of a map state does not fit the types that the function declares, so it is damaged, or the types "
        "have changed. Restore from an older checkpoint, or declare the types that wrote it. "
        f"state={name}, reason={reason}"
    )
