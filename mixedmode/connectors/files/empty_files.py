"""Input files without a byte that cannot be whole. Spark skips every empty file without a message.

An empty file of lines has no records. But a writer of Parquet or of a compressed file always writes some bytes, so such
a file is not complete.
"""

from urllib.parse import unquote

from mixedmode.spark.damaged import damaged_file

__all__ = ["check_not_empty"]

_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def check_not_empty(url: str, length: int, format: str) -> None:  # noqa: A002 - the name in the job file
    """Raise InvalidJobError for an empty file that Spark would skip although it is not whole."""
    if length == 0 and _never_empty(url, format):
        kind = "Parquet" if format == "parquet" else "compressed"
        raise damaged_file(url, f"the file is empty, and a whole {kind} file is not")


def _never_empty(url: str, format: str) -> bool:  # noqa: A002 - the name in the job file
    """Return whether a whole file of this name and format has at least one byte."""
    return format == "parquet" or unquote(url).lower().endswith(_COMPRESSED)
