"""Several problems as one report: errors of ours are collected while more is checked, and raised together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mixedmode.errors import InvalidJobError, MixedmodeError


@contextmanager
def collecting(found: list[MixedmodeError], *, where: str = "") -> Iterator[None]:
    """Put an error of ours into `found` instead of raising it, its text after `where`."""
    try:
        yield
    except MixedmodeError as error:
        text = str(error)
        found.append(type(error)(f"{where}: {text}") if where and not text.startswith(where) else error)


def raise_all(found: Sequence[MixedmodeError]) -> None:
    """Raise one error with all texts, a line each; what has to be corrected counts before what may be repeated."""
    if not found:
        return
    if len(found) == 1:
        raise found[0]
    kind = next((type(error) for error in found if isinstance(error, InvalidJobError)), type(found[0]))
    raise kind("\n".join(dict.fromkeys(map(str, found)))) from found[0]
