"""The nearest valid spelling of a word, for messages.

People type `runtime_mode`, `Runtime-Mode` or `runtime-mod`; a message that names the right word saves them a search.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most probably means, or None when nothing is near. Case, `_` and `-` do not count."""
    plain = {_plain(one): one for one in known}
    match = get_close_matches(_plain(word), plain, n=1, cutoff=0.6)
    return plain[match[0]] if match else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean X?` with a space before it, ready to follow a sentence; empty when nothing is near."""
    match = nearest(word, known)
    return "" if match is None else f" Did you mean {match}?"


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")
