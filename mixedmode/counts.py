"""Numbers of things in texts for a person."""

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.  plural: the noun with an s by default.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "entry", "entries")
    ('1 row', '2,000 rows', '0 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
