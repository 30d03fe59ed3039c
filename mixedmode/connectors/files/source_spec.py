"""Settings of file sources."""

import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Literal
from urllib.parse import unquote

from pydantic import Field
from typing_extensions import override

from mixedmode.config.connectors import AnySink
from mixedmode.config.document import Path
from mixedmode.config.drift import Drift
from mixedmode.config.fields import Count, Lines, Options, PositiveBytes, Section, Text
from mixedmode.config.globs import input_path
from mixedmode.config.reader_options import option_findings
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec, dead_letter_findings
from mixedmode.config.used_places import UsedPlace

#: options of Spark's readers with which a line of a file is no record, or a wrong record does not fail
_NO_DEAD_LETTERS = ("mode", "columnnameofcorruptrecord", "multiline", "encoding", "charset", "linesep")


class SchemaDriftSpec(Section):
    """Rules for files whose columns differ from those of `schema`."""

    new_column: Literal["ignore", "fail"] = Field(
        default="ignore", description="ignore, or fail: a file has a column that schema does not name"
    )
    missing_column: Literal["nulls", "fail"] = Field(
        default="nulls", description="nulls, or fail: a file, of JSON a record, lacks a column that schema names"
    )
    wrong_type: Literal["fail", "nulls"] = Field(
        default="fail", description="fail, or nulls: what a file has in a column is not of the type that schema says"
    )


class FileSourceSpec(SourceSpec):
    """A source of files."""

    dimension_settings = frozenset({"path", "schema_ddl", "options", "schema_drift"})

    format: Literal["parquet", "json", "csv"] = Field(description="parquet, json or csv")
    path: Text = Field(description="a folder, a single file or a glob, local or a URL")
    schema_ddl: Lines | None = Field(
        default=None, description="columns as Spark DDL, such as date timestamp, origin string; parquet brings its own"
    )
    options: Options = Field(default={}, description="options for Spark's reader of this format, such as header")
    schema_drift: SchemaDriftSpec | None = Field(
        default=None, description="what becomes of files with other columns; not given: what Spark's reader does"
    )
    undecodable: Literal["fail", "dead-letter"] = Field(
        default="fail",
        description="a line of json or csv that is no record of schema; fail: the job stops and says which; "
        "dead-letter: it goes to an output of its own",
    )
    dead_letter: AnySink | None = Field(
        default=None, description="where lines go that cannot be decoded; needs undecodable: dead-letter"
    )
    max_files_per_epoch: Count | None = Field(
        default=None,
        description="most files in one epoch when a backlog uses the streaming strategy; not given: no limit",
    )
    max_bytes_per_epoch: PositiveBytes | None = Field(
        default=None,
        description="most bytes in one epoch when a backlog uses the streaming strategy; not given: no limit",
    )

    @property
    @override
    def place(self) -> str:
        return f"{self.format} {self.path}"

    @property
    @override
    def declared_schema(self) -> str | None:
        return self.schema_ddl

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        return (UsedPlace(("path",), self.path, self.path, is_pattern=True),)

    @property
    @override
    def limits_per_epoch(self) -> Mapping[str, int]:
        limits = {"max_files": self.max_files_per_epoch, "max_bytes": self.max_bytes_per_epoch}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @override
    def may_have_read(self, kind: Literal["files", "topics"], names: Collection[str]) -> bool:
        literal = input_path(self.path, lambda path: pathlib.Path(path).exists()).literal
        folder = f"{_without_scheme(literal).rstrip('/')}/"
        return kind == "files" and all(f"{_without_scheme(unquote(url))}/".startswith(folder) for url in names)

    @property
    @override
    def outputs(self) -> Mapping[Path, SinkSpec]:
        return {} if self.dead_letter is None else {("dead-letter",): self.dead_letter}

    @property
    def drift(self) -> Drift | None:
        """The rules for schema drift, without the names of columns; None for the behaviour of Spark's reader."""
        rules = self.schema_drift
        return None if rules is None else Drift(rules.new_column, rules.missing_column, rules.wrong_type)

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.schema_ddl is None and self.schema_drift is not None and self.format == "parquet":
            text = " has no effect without schema, whose columns files are held against. Add schema, or remove it."
            yield ("schema-drift",), text
        if self.schema_ddl is None and self.format != "parquet":
            text = (
                " is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                f'"date timestamp, origin string". format={self.format}'
            )
            yield ("schema",), text
        for path, text in option_findings(self.format, self.options, self.schema_ddl):
            yield ("options", *path), text
        yield from super()._findings()
        yield from dead_letter_findings(self.undecodable, self.dead_letter)
        if self.undecodable == "dead-letter":
            yield from self._no_dead_letters()
        if self.max_files_per_epoch is not None and self.max_bytes_per_epoch is not None:
            text = " and max-files-per-epoch are both given, and Spark takes one of them. Remove one."
            yield ("max-bytes-per-epoch",), text

    def _no_dead_letters(self) -> Iterator[tuple[Path, str]]:
        if self.format == "parquet":
            yield ("undecodable",), " can be dead-letter for lines of json and csv only. Remove it. format=parquet"
        if self.schema_drift is not None:
            yield ("undecodable",), " and schema-drift both say what becomes of a wrong record. Remove one of the two."
        for option in self.options:
            if option.lower() in _NO_DEAD_LETTERS:
                text = (
                    " cannot be combined with undecodable: dead-letter, which needs lines of UTF-8 with one record "
                    "each, and decides itself what becomes of a wrong one. Remove one of the two."
                )
                yield ("options", option), text


def _without_scheme(path: str) -> str:
    """Return a path or URL without its scheme: s3a:// and s3:// are one store, file:/in and /in are one folder."""
    scheme, _, rest = path.rpartition("://")
    return rest if scheme else path.removeprefix("file:")
