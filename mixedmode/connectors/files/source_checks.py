"""Checks of a file source's path and options that need the file system, or Spark's rules about names."""

import os
from collections.abc import Collection
from pathlib import Path

from mixedmode.config.globs import has_magic
from mixedmode.connectors.files.csv_files import has_header
from mixedmode.connectors.files.csv_values import CsvDialect
from mixedmode.connectors.files.local_inputs import is_hidden, local_input, visible_files
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError

__all__ = ["check_header", "check_options", "check_path"]

_LINE_BYTES = 64 * 1024


def check_path(source: FileSourceSpec, *, where: str) -> None:
    """Raise InvalidJobError for a path that can never match a file."""
    if "://" in source.path:
        return
    cut = local_input(source.path)
    if not os.path.exists(cut.literal):  # noqa: PTH110 - a text, not a path, is told
        what = "folder before the pattern" if cut.has_pattern else "file or directory"
        msg = f"{where}: there is no such {what}. Create it, or correct the path. path={cut.literal}"
        raise InvalidJobError(msg)
    name = os.path.basename(cut.literal)  # noqa: PTH119 - as above
    is_file = os.path.isfile(cut.literal)  # noqa: PTH113 - as above
    if is_file and not cut.has_pattern and is_hidden(name):
        msg = (
            f"{where}: Spark passes over files whose names begin with _ or a dot, so nothing would be read. Rename the "
            f"file. path={source.path}"
        )
        raise InvalidJobError(msg)
    if ":" in cut.literal and (cut.has_pattern or is_file or has_magic(cut.literal)):
        msg = (
            f"{where}: Hadoop cannot read a path with a colon in it that is also a pattern or a single file, or that "
            f"has one of []{{}}*?\\ in it. Rename the folder, or name the folder alone. path={source.path}"
        )
        raise InvalidJobError(msg)


def check_options(source: FileSourceSpec, *, where: str) -> None:
    """Raise InvalidJobError for an option that the mode decides, or that deletes files which may be read again."""
    cleaning = [option for option in source.options if option.lower() in {"cleansource", "sourcearchivedir"}]
    if cleaning:
        msg = (
            f"{where}: with this option, Spark deletes or moves a file soon after it was read, and the job may have to "
            "read the file again, when it goes back to an older checkpoint. Remove the option, and delete files that "
            f"are older than the oldest retained checkpoint and savepoint yourself. option={cleaning[0]}"
        )
        raise InvalidJobError(msg)
    # the mode decides the size of an epoch: a limit of Spark would cut a mixed backlog into several epochs
    limits = [option for option in source.options if option.lower() in {"maxfilespertrigger", "maxbytespertrigger"}]
    if limits:
        msg = (
            f"{where}: this option of Spark's is set by the job's mode. Use max-files-per-epoch or max-bytes-per-epoch "
            f"of the source, which hold where a backlog uses the streaming strategy. option={limits[0]}"
        )
        raise InvalidJobError(msg)


def check_header(source: FileSourceSpec, columns: Collection[str], *, where: str) -> None:
    """Raise InvalidJobError if a CSV file begins with names of columns, and this line would be a record.

    One local file is looked at, and a line of several names: one may be a value. Where a column is no text, the record
    would be refused later; where all are texts, nothing would tell.
    """
    if source.format != "csv" or "://" in source.path or has_header(source):
        return
    dialect, path = CsvDialect.of(source.options), next(filter(Path.is_file, visible_files(source.path)), None)
    if path is None or not dialect.separator:
        return
    try:
        with path.open("rb") as file:
            line = file.readline(_LINE_BYTES).decode("utf-8-sig", errors="replace").strip()
    except OSError:
        return  # Spark tells it when it reads the file
    values = [value.strip().strip(dialect.quote).lower() for value in line.split(dialect.separator)]
    if len(values) > 1 and {*values} <= {name.lower() for name in columns}:
        msg = (
            f"{where}: the first line of this file names columns, and would be read as a record. Set the option "
            f"`header: true`; or remove the line. file={path}, line={line}"
        )
        raise InvalidJobError(msg)
