"""Folders of partitions in a source (`zip=1/`): columns that Spark takes from names, and files that are in none.

Spark reads a name with a type of its own and converts it to that of the schema, for some types wrongly: `zip=300` as
tinyint is 44, and `price=1` as decimal(10,2) may be 0.01. It passes over files beside such folders without a message.
It reads `%C3%A4`, as pyarrow, pandas and DuckDB write `ä`, as two characters.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from pyspark.sql.types import ByteType, DecimalType, ShortType, StructType

from mixedmode.config.globs import has_magic
from mixedmode.connectors.files.local_inputs import files_depth, is_hidden, matched
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError

__all__ = ["PartitionFolders"]

_MISREAD = (ByteType, ShortType, DecimalType)
_NOT_ASCII = re.compile("%[89A-Fa-f][0-9A-Fa-f]")


@dataclass(frozen=True, slots=True)
class PartitionFolders:
    """The partition columns of a source, as far as names of folders show them.

    `depth`: the number of folders above the partitions; None if Spark looks for no partitions, or the number differs
    between the alternatives of a pattern, so that nothing is checked. `misread`: {column: its type} of the declared
    columns that Spark would misread in the name of a folder. `present`: the columns of the folders that exist.
    """

    depth: int | None
    misread: dict[str, str]
    present: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: FileSourceSpec, schema: StructType) -> Self:
        """Return what is known of a source."""
        options = {name.lower(): value.lower() for name, value in source.options.items()}
        if options.get("recursivefilelookup") == "true" or "basepath" in options:
            return cls(None, {})
        misread = {
            field.name.lower(): field.dataType.simpleString()
            for field in schema
            if isinstance(field.dataType, _MISREAD)
        }
        if "://" in source.path:
            return cls(None if has_magic(source.path) else len(_parts(source.path)), misread)
        depth = files_depth(source.path)
        return cls(depth, misread, () if depth is None else tuple(_names_below(source.path)))

    def check_present(self, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if Spark misreads the names of folders that exist."""
        self._check_types(self.present, where)

    def check(self, urls: Sequence[str], where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, for a file whose folders Spark misreads, or passes over."""
        found = {url: self._columns(url, where) for url in urls}
        wanted = max((self.present, *found.values()), key=len)
        for url, names in found.items():
            self._check_types(names, where)
            if len(names) < len(wanted):
                msg = (
                    f"{where}: a file is beside folders of partitions, so it has no value for their columns, and Spark "
                    f"would pass over it. Move it into such a folder, or into a source of its own. file={url}, "
                    f"columns={', '.join(wanted)}"
                )
                raise InvalidJobError(msg)

    def _columns(self, url: str, where: str) -> tuple[str, ...]:
        if self.depth is None or ("=" not in url and "%3D" not in url):
            return ()
        folders = [part for part in _parts(url)[self.depth : -1] if "=" in part]
        for folder in folders:
            _check_characters(folder, where)
        return tuple(map(_column, folders))

    def _check_types(self, names: Iterable[str], where: str) -> None:
        for name in names:
            if name in self.misread:
                msg = (
                    f"{where}: Spark misreads names of folders as this type: zip=300 as tinyint is 44, and price=1 as "
                    "decimal(10,2) may be 0.01. Declare the column as bigint or string in `schema`, and cast it in a "
                    f"sql step. column={name}, type={self.misread[name]}"
                )
                raise InvalidJobError(msg)


def _check_characters(folder: str, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, if Spark reads a name as other text than its writer meant.

    Spark and Hive write no such name: they write characters that are not ASCII as they are.
    """
    if _NOT_ASCII.search(folder) is not None:
        msg = (
            f"{where}: a folder of a partition has characters in its name that are not ASCII, each as bytes with %, "
            "and Spark would read each byte as a character: %C3%A4 is not ä. Rename the folder with the characters "
            f"themselves. folder={folder}, new_name={unquote(folder)}"
        )
        raise InvalidJobError(msg)


def _names_below(path: str) -> Iterator[str]:
    """Yield the columns of the folders below a path, by the first folder of each level, since all have the same."""
    folder = next((root for root in matched(path) if _first_folder(root) is not None), None)
    while folder is not None and (below := _first_folder(folder)) is not None:
        yield _column(below.name)
        folder = below


def _first_folder(folder: Path) -> Path | None:
    children = folder.iterdir() if folder.is_dir() else iter(())
    return next((one for one in children if "=" in one.name and one.is_dir() and not is_hidden(one.name)), None)


def _column(folder: str) -> str:
    return unquote(folder.partition("=")[0]).lower()


def _parts(url: str) -> list[str]:
    """Return the folders of a path or URL, and its last part."""
    return unquote(url).removeprefix("file:").strip("/").split("/")
