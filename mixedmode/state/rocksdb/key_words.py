"""Search sorted keys of one length by words of 8 bytes, which numpy compares several times faster than bytes.

A word holds the key group (the first two bytes of a stored key) and six bytes further on, from the first byte in which
keys of a batch differ, but at most the last six. So words of many keys are in the order of the keys, and no two of them
are equal. Only such words are used, and what they find is compared with the key.

    Example: the keys 5 and 300 (int64) of key group 7 in state 1 are 0007 01 01 8000000000000005 and
    0007 01 01 800000000000012c. Their first byte is number 6, and their words are 0007000000000005, 000700000000012c.

Invariant (tests/state/test_key_words.py): the keys found are those that both lists have, with and without words.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mixedmode.state.fixed_bytes import WORD_BYTES, FixedBytes, words_at

__all__ = ["KeyWords", "SearchedKeys", "find_keys", "words_of"]

Bytes2D = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]

_GROUP_BYTES = 2
_GROUP_MASK = np.uint64(0xFFFF << 48)  # the first two bytes of a word
_NO_ROWS = np.zeros(0, np.intp)


@dataclass(frozen=True, slots=True)
class KeyWords:
    """The words (n,) of sorted keys, strictly increasing, and the first of the six bytes that they are made of."""

    words: Words
    first_byte: int


@dataclass(frozen=True, slots=True)
class SearchedKeys:
    """Keys to search for: (n, width) bytes, strictly increasing."""

    rows: Bytes2D
    _words: dict[int, Words] = field(default_factory=dict)

    @property
    def keys(self) -> npt.NDArray[np.bytes_]:
        """Return the keys (n,), for comparisons."""
        return FixedBytes(self.rows).comparable()

    def words(self, first_byte: int) -> Words:
        """Return the words (n,) of the keys, which may be in any order."""
        if first_byte not in self._words:
            self._words[first_byte] = _made(self.rows, first_byte)
        return self._words[first_byte]

    def at(self, positions: Positions) -> "SearchedKeys":
        """Return the keys at ascending positions (m,)."""
        return SearchedKeys(self.rows[positions], {first: words[positions] for first, words in self._words.items()})


def words_of(rows: Bytes2D) -> KeyWords | None:
    """Return the words of sorted keys, (n, width) bytes with n > 0; None if they are not strictly increasing."""
    first_byte = _first_byte(rows)
    words = _made(rows, first_byte)
    return KeyWords(words, first_byte) if _increases(words) else None


def find_keys(
    wanted: SearchedKeys, keys: npt.NDArray[np.bytes_], words: KeyWords | None
) -> tuple[Positions, Positions]:
    """Return (m,) positions in `wanted` of the keys found, and (m,) their positions in `keys`.

    keys: (n,), n > 0, strictly increasing, as long as the wanted ones. words: theirs, if they are of use.
    """
    every = wanted.keys
    low = int(np.searchsorted(every, keys[0], "left"))
    high = int(np.searchsorted(every, keys[-1], "right"))
    if low == high:
        return _NO_ROWS, _NO_ROWS
    among = every[low:high]
    if words is not None:
        among_words = wanted.words(words.first_byte)[low:high]
        if len(among) <= len(keys) or _increases(among_words):
            rows, at = _matches(among_words, words.words)
            is_equal = among[rows] == keys[at]
            return rows[is_equal] + low, at[is_equal]
    rows, at = _matches(among, keys)
    return rows + low, at


def _matches(few: npt.NDArray[np.generic], many: npt.NDArray[np.generic]) -> tuple[Positions, Positions]:
    """Return the positions in both lists of the values that both have.

    `many` strictly increases, and so does `few` if it is the longer one. Each value of the shorter list is searched for
    in the longer one. A value beyond its end is compared with its last value, and differs.
    """
    if len(few) > len(many):
        at, rows = _matches(many, few)
        return rows, at
    at = np.minimum(np.searchsorted(many, few), len(many) - 1)
    rows = np.flatnonzero(many[at] == few)
    return rows, at[rows]


def _first_byte(rows: Bytes2D) -> int:
    last: int = rows.shape[1] - (WORD_BYTES - _GROUP_BYTES)
    for start in range(_GROUP_BYTES, last, WORD_BYTES):
        words = words_at(rows, start)
        differs = int(np.bitwise_or.reduce(words ^ words[0]))
        if differs:
            first_different = start + WORD_BYTES - (differs.bit_length() + 7) // 8
            return min(first_different, last)
    return last


def _made(rows: Bytes2D, first_byte: int) -> Words:
    """Return the words of keys; keys of at most eight bytes are their words."""
    words = words_at(rows, 0)
    if rows.shape[1] > WORD_BYTES:
        words &= _GROUP_MASK
        words |= words_at(rows, first_byte - _GROUP_BYTES) & ~_GROUP_MASK
    return words


def _increases(words: Words) -> bool:
    return bool((words[1:] > words[:-1]).all())
