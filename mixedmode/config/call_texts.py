"""The parts of the text of a call: where its parenthesis closes, and the arguments between its commas."""

from collections.abc import Iterator

from mixedmode.errors import InvalidJobError

__all__ = ["closing", "pieces"]

_QUOTES = "'\"`"


def closing(text: str, start: int, found: str | None = None) -> int:
    """Return the position of the parenthesis that closes the one opened before `start`."""
    found = text if found is None else found
    depth = 1
    for position, char in outside_quotes(text[start:], found):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return start + position
    if not text.rstrip().endswith(")"):
        msg = (
            "the call is cut short: its parenthesis is never closed. Between { and }, YAML ends a value at a comma, so "
            "put the call in quotes there, or each output on a line of its own. "
            f"found={found}"
        )
        raise InvalidJobError(msg)
    msg = f"a parenthesis is never closed. Close it before the end of the argument. found={found}"
    raise InvalidJobError(msg)


def pieces(arguments: str, found: str) -> list[str]:
    """Return the texts between the commas that are outside of parentheses."""
    pieces, start, depth = [], 0, 0
    for position, char in outside_quotes(arguments, found):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            pieces.append(arguments[start:position])
            start = position + 1
    return [*pieces, arguments[start:]]


def outside_quotes(argument: str, found: str) -> Iterator[tuple[int, str]]:
    """Yield (position, character) outside of quoted strings and names.

    A backslash escapes in strings, as in Spark SQL.
    """
    quote = ""
    chars = iter(enumerate(argument))
    for position, char in chars:
        if quote and char == "\\" and quote != "`":
            next(chars, None)
        elif quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        else:
            yield position, char
    if quote:
        msg = f"a quoted part is never closed. Add the closing {quote}. found={found}"
        raise InvalidJobError(msg)
