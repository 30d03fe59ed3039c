"""The error for a damaged file of a source. Spark's readers and mixedmode's own reader report it in the same words."""

from mixedmode.errors import InvalidJobError

__all__ = ["damaged_file"]


def damaged_file(file: str, cause: object) -> InvalidJobError:
    """Return the error for a file that is damaged, cut short, or in another format."""
    return InvalidJobError(
        "a file of a source cannot be read: it is damaged, cut short (still being written?) or in another format, and "
        "nothing was committed. Replace or remove it; move a file into the folder only when it is complete, or write "
        f"it under a name that begins with _ or a dot. file={file}, cause={cause}"
    )
