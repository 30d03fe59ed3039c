"""The state of the current key, which all state handles of a function share.

The single-valued states of a key are one row: the attributes of one object. The row is decoded when the key's turn
begins, and encoded when it ends. So values that were changed in place are stored like values that were set.
"""

from typing import Any, NoReturn

_MISSING: Any = object()

Journal = list[tuple[dict[Any, Any], Any, Any]]  #: (dictionary, key, value before or _MISSING), oldest first


class _NoKey:
    """Placeholder for the row outside of a key's turn."""

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse()

    @staticmethod
    def _refuse() -> NoReturn:
        msg = (
            "state belongs to a key, and it is no key's turn here. Use it in process_element, process_rows or on_timer "
            "only, through `self`"
        )
        raise RuntimeError(msg)


NO_KEY: Any = _NoKey()


class KeyState:
    """`row`: see KeyCodec. `now_ms`: the clock of the epoch. `journal`: the data to undo changes of dictionaries."""

    __slots__ = ("journal", "now_ms", "row")

    def __init__(self, now_ms: int) -> None:
        self.row: Any = NO_KEY
        self.now_ms = now_ms
        self.journal: Journal | None = None

    def check_turn(self) -> None:
        """Raise RuntimeError outside of a key's turn."""
        if self.row is NO_KEY:
            _NoKey._refuse()  # noqa: SLF001  # of this module

    def before(self, entries: dict[Any, Any], key: Any) -> None:
        """Note the old value of `entries[key]` in the journal. Call this before setting or deleting the entry."""
        if self.journal is not None:
            self.journal.append((entries, key, entries.get(key, _MISSING)))

    def undo(self) -> None:
        """Restore the dictionaries to the start of the journal, and start a new journal."""
        if self.journal is None:
            return
        for entries, key, value in reversed(self.journal):
            if value is _MISSING:
                entries.pop(key, None)
            else:
                entries[key] = value
        self.journal.clear()


UNBOUND = KeyState(0)
