"""The valid word that another word misspells, for messages.

People type `runtime_mode`, `Runtime-Mode` or `runtime-mod`; a message that names the right word saves them a search.
A message that names a word with another meaning does harm: a user who writes `median` does not mean `mean`. So only
typing errors count, and never a common beginning:

    words of up to 7 letters     one letter too many, too few, or wrong, or two neighbours swapped
    longer words                 two such errors
    words of up to 4 letters     as the first, but no wrong letter: `mad` is not `max`, `list` is not `last`
"""

from collections.abc import Iterable

_SHORT = 4
_LONG = 8


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` misspells; None if there is none, or several.

    Case, `_` and `-` do not count.
    """
    written = _plain(word)
    slips = {one: _slips(written, _plain(one)) for one in known}
    fewest = min((count for count in slips.values() if count is not None), default=None)
    near = [one for one, count in slips.items() if count is not None and count == fewest]
    return near[0] if len(near) == 1 else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean X?`, with a space before it, to append to a sentence; empty if no known word is near."""
    match = nearest(word, known)
    return "" if match is None else f" Did you mean {match}?"


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


def _slips(written: str, meant: str) -> int | None:
    """Return the number of typing errors between two words; None if it is more than their length allows."""
    shorter = min(len(written), len(meant))
    most = 2 if shorter >= _LONG else 1
    if abs(len(written) - len(meant)) > most:
        return None
    wrong_letter = 1 if shorter > _SHORT else most + 1
    count = _edit_distance(written, meant, wrong_letter)
    return count if count <= most else None


def _edit_distance(one: str, other: str, wrong_letter: int) -> int:
    """Return the Damerau-Levenshtein distance in which each position is edited at most once."""
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            found = min(last[j] + 1, row[-1] + 1, last[j - 1] + (0 if a == b else wrong_letter))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                found = min(found, before[j - 2] + 1)
            row.append(found)
        before, last = last, row
    return last[-1]
