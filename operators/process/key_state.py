"""The state of the key whose turn it is: what all state handles of a function share.

The one idea: the single-valued states of a key are one row, the attributes of one object, decoded when the key's turn
begins and encoded when it ends. What the row holds then is what is stored, whether it was set or changed in place.
"""

from typing import Any, NoReturn

_MISSING: Any = object()

Journal = list[tuple[dict[Any, Any], Any, Any]]  #: (dictionary, key, value before or _MISSING), oldest first


class _NoKey:
    """Stands for the row while it is no key's turn."""

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
    """`row`: see KeyCodec. `now_ms`: the clock of the epoch. `journal`: how to undo changes of dictionaries."""

    __slots__ = ("journal", "now_ms", "row")

    def __init__(self, now_ms: int) -> None:
        self.row: Any = NO_KEY
        self.now_ms = now_ms
        self.journal: Journal | None = None

    def check_turn(self) -> None:
        """Raise RuntimeError while it is no key's turn."""
        if self.row is NO_KEY:
            _NoKey._refuse()  # noqa: SLF001  # of this module

    def before(self, entries: dict[Any, Any], key: Any) -> None:
        """To be called before `entries[key]` is set or deleted."""
        if self.journal is not None:
            self.journal.append((entries, key, entries.get(key, _MISSING)))

    def undo(self) -> None:
        """Bring the dictionaries back to where they were when the journal was begun; begin it anew."""
        if self.journal is None:
            return
        for entries, key, value in reversed(self.journal):
            if value is _MISSING:
                entries.pop(key, None)
            else:
                entries[key] = value
        self.journal.clear()


UNBOUND = KeyState(0)
