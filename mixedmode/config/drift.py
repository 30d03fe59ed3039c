"""Schema drift: the rules for an input file whose columns differ from those that `schema` names.

The file's columns are compared with the declared ones by name. There are three kinds of difference. A rule per kind
says whether the difference is harmless, or ends the epoch with nothing committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mixedmode.errors import InvalidJobError

#: messages; each is followed by values, as in all errors
_NEW = (
    "a source file has a column that `schema` does not name, and schema-drift.new-column is fail; nothing was "
    "committed. Add it to `schema`, take it out of the file, or set schema-drift.new-column to ignore."
)
_MISSING = (
    "a source file lacks a column that `schema` names, and schema-drift.missing-column is fail; nothing was committed. "
    "Put it into the file, take it out of `schema`, or set schema-drift.missing-column to nulls."
)
WRONG_TYPE = (
    "a column of a source file has another type than `schema` says, and reading it so would change values. Correct "
    "`schema`, or the file, or set schema-drift.wrong-type to nulls. Without `schema`, the types are those of the "
    "files when the run began: start again if all files have the new type."
)
NO_RECORD = (
    "a line of a source file is not a JSON object, and nothing was committed. Correct or remove it; with "
    "schema-drift, each line is one object in UTF-8, with double quotes."
)
NEW_IN_RECORD = _NEW.replace("a source file has", "a record of a source file has")
MISSING_IN_RECORD = _MISSING.replace("a source file lacks", "a record of a source file lacks")
WRONG_VALUE = (
    "a value in a source file is not of the type that `schema` says, and nothing was committed. Correct `schema`, or "
    "the file, or set schema-drift.wrong-type to nulls."
)
RAGGED = (
    "a line of a source file has another number of values than its first line has names, and nothing was committed. "
    "Correct the file."
)


@dataclass(frozen=True, slots=True)
class Drift:
    """The rules, and the names of the declared columns. The defaults are the behaviour of every reader."""

    new_column: Literal["ignore", "fail"] = "ignore"
    missing_column: Literal["nulls", "fail"] = "nulls"
    wrong_type: Literal["fail", "nulls"] = "fail"
    declared: tuple[str, ...] = ()

    @property
    def is_checked(self) -> bool:
        """True if a file's column names have to be compared with the declared ones."""
        return "fail" in {self.new_column, self.missing_column}

    def check_names(self, found: Iterable[str], *, file: str) -> None:
        """Compare a file's column names with the declared ones, ignoring case. Raises InvalidJobError."""
        if not self.is_checked:
            return
        names = {name.lower(): name for name in found}
        declared = {name.lower(): name for name in self.declared}
        if self.new_column == "fail":
            new = [names[name] for name in names if name not in declared]
            if new:
                raise InvalidJobError(new_column(file, new))
        if self.missing_column == "fail":
            missing = [declared[name] for name in declared if name not in names]
            if missing:
                raise InvalidJobError(missing_column(file, missing))


def new_column(file: str, columns: Iterable[str]) -> str:
    """Return the message for columns that are not declared."""
    return f"{_NEW} file={file}, column={', '.join(columns)}"


def missing_column(file: str, columns: Iterable[str]) -> str:
    """Return the message for declared columns that a file lacks."""
    return f"{_MISSING} file={file}, column={', '.join(columns)}"
