"""A step that applies the records of changes to a table, as databases send them."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Expressions, Flag, Lines, Section
from mixedmode.config.keyed import Keyed
from mixedmode.config.names import repeated

__all__ = ["VERSION_COLUMNS", "ApplyChangesSpec", "ApplyChangesStep"]

#: the columns that a step with history adds
VERSION_COLUMNS = ("__START_AT", "__END_AT")


class ApplyChangesSpec(Section):
    """The order of the records, those that delete, and the columns of the table."""

    sequence_by: Expressions = Field(
        description="one or several: columns or SQL expressions by which the records of a key are ordered, such as "
        "lsn; the record with the greatest values counts, whatever the order of arrival",
        min_length=1,
    )
    delete_when: Lines | None = Field(
        default=None,
        description="a condition in SQL, such as op = 'd'; a record that meets it deletes the row of its key",
    )
    columns: Columns = Field(default=(), description="the columns of the table, beside the key; not given: all")
    except_columns: Columns = Field(default=(), description="columns of the records that the table does not have")
    history: Flag = Field(
        default=False,
        description="true: one row for each version of a key's row, with __START_AT and __END_AT, the values of "
        "sequence-by between which it was valid",
    )
    track: Columns = Field(
        default=(), description="with history, the columns whose change begins a new version; not given: all"
    )
    track_except: Columns = Field(
        default=(), description="with history, columns whose change only replaces the values of the version"
    )

    @property
    def expressions(self) -> Sequence[tuple[str, str]]:
        """(setting, SQL) of those that are given: by which records are ordered, and last, which of them delete."""
        deletes = [] if self.delete_when is None else [("delete-when", self.delete_when)]
        return [*(("sequence-by", text) for text in self.sequence_by), *deletes]

    def _findings(self) -> Iterator[tuple[Path, str]]:
        lists = {
            "columns": self.columns,
            "except-columns": self.except_columns,
            "track": self.track,
            "track-except": self.track_except,
        }
        for name, given in lists.items():
            for column, _ in repeated(given, {}):
                yield (name,), f" names a column twice. Remove one. found={column}"
        for one, other in (("columns", "except-columns"), ("track", "track-except")):
            if lists[one] and lists[other]:
                yield (other,), f" and `{one}` say the same in two ways. Remove one of them."
        if self.history and len(self.sequence_by) > 1:
            text = (
                " has several values, and with history a version begins at one. Make one of them in a sql step before. "
                f"found={', '.join(self.sequence_by)}"
            )
            yield ("sequence-by",), text
        for name in ("track", "track-except"):
            if lists[name] and not self.history:
                yield (name,), " is about versions, which a table without history does not have. Add `history: true`."


class ApplyChangesStep(Keyed):
    """A step that emits the current rows of a table, or all versions of them, from the records of its changes."""

    apply_changes: ApplyChangesSpec = Field(
        description="how the records of changes make the rows of a table; the key is that of the table"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        kept = {column.lower() for column in VERSION_COLUMNS} if self.apply_changes.history else set()
        for column in self.key_columns:
            if column.lower() in kept:
                yield ("key-by",), f": history adds a column of this name. Rename yours. found={column}"
