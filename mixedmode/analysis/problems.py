"""Collects several MixedmodeErrors while checks go on, and raises them together as one report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mixedmode.config.document import in_order
from mixedmode.errors import InvalidJobError, MixedmodeError


@contextmanager
def collecting(found: list[MixedmodeError], *, where: str = "") -> Iterator[None]:
    """Append a MixedmodeError of the block to `found` instead of raising it, with `where` before its text."""
    try:
        yield
    except MixedmodeError as error:
        text = str(error)
        found.append(type(error)(f"{where}: {text}") if where and not text.startswith(where) else error)


def raise_all(found: Sequence[MixedmodeError]) -> None:
    """Raise one error with all texts, in the order of the file: an InvalidJobError if there is one.

    An InvalidJobError needs a correction, and the others may need none.
    """
    if not found:
        return
    if len(found) == 1:
        raise found[0]
    kind = next((type(error) for error in found if isinstance(error, InvalidJobError)), type(found[0]))
    raise kind("\n".join(in_order(map(str, found)))) from found[0]
