"""The meaning of Spark's errors about lines."""

from mixedmode.errors import InvalidJobError


def lines_problem(text: str) -> InvalidJobError | None:
    """Return the error for a text about lines; None for another text."""
    return InvalidJobError("a file of lines is torn. Mend it") if "TORN_LINES" in text else None
