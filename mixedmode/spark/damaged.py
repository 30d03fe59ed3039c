"""The words for a damaged file of a source, and for a wrong record in one, whichever reader reports it."""

from mixedmode.errors import InvalidJobError

__all__ = ["WRONG_RECORD", "damaged_file"]

#: the beginning of an error; the place of the record follows
WRONG_RECORD = (
    "a record of a source is not what its format and schema say, and nothing was committed. Correct the file, or "
    "correct `schema`. To go on without such lines of JSON or CSV, set `undecodable: dead-letter` on the source (a "
    "dimension has no such setting), which sends them to an output of their own."
)


def damaged_file(file: str, cause: object) -> InvalidJobError:
    """Return the error for a file that is damaged, cut short, or in another format."""
    return InvalidJobError(
        "a file of a source cannot be read: it is damaged, cut short (still being written?) or in another format, and "
        "nothing was committed. Replace or remove it; move a file into the folder only when it is complete, or write "
        f"it under a name that begins with _ or a dot. file={file}, cause={cause}"
    )
