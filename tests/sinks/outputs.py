"""Output folders for tests: rows as plain Python, epoch by epoch, and what readers get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.manifest import decode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.connectors.files.epoch_markers import MARKER, EpochMarker
from mixedmode.connectors.files.sink import FileSink
from mixedmode.sinks.files import FileFormat, FileLayout
from mixedmode.sinks.publish import read_output_description, steady_files
from mixedmode.sinks.read_files import read_rows
from tests.staging import stage

FIELDS = (pa.field("k", pa.string()), pa.field("n", pa.int64()), pa.field("v", pa.float64()))
KEYED = pa.schema([*FIELDS, pa.field("_op", pa.string())])
Row = dict[str, Any]


@dataclass
class Output:
    """An output of upserts by k, and the rows that it has been given, by epoch."""

    folder: Path
    file_format: FileFormat = "parquet"
    layout: FileLayout = FileLayout()  # noqa: RUF009 - frozen
    keys: tuple[str, ...] = ("k",)
    marks_epochs: bool = False
    place: str | None = None  #: not given: below `folder`
    rows: dict[int, list[Row]] = field(default_factory=dict)
    staged: dict[int, list[StagedFile]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.place or str(self.folder / "out")

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.url)

    def sink(self, *, replaces: bool = False) -> FileSink:
        return FileSink(
            "job", self.url, self.file_format, replaces=replaces, layout=self.layout, marks_epochs=self.marks_epochs
        )

    def stage(self, epoch: int, by_subtask: Mapping[int, Sequence[Row]], attempt: str = "a") -> list[StagedFile]:
        """Stage the rows of an epoch, by subtask, and return the staged files."""
        sink = self.sink()
        files: list[StagedFile] = []
        for subtask, rows in by_subtask.items():
            local = self.folder / f"local-{epoch}-{subtask}-{attempt}"
            table, unique = pa.Table.from_pylist(list(rows), KEYED), f"{attempt}{epoch}x{subtask}"
            files += stage(sink.task, local, unique, table, epoch=epoch, subtask=subtask)
        return files

    def publish(self, epoch: int, *by_subtask: Sequence[Row]) -> None:
        """An epoch, with the rows of subtask 0, 1 and so on."""
        if not self.store.exists("_mixedmode"):
            self.sink().prepare(FIELDS, self.keys, is_fresh=True)
        self.staged[epoch] = self.stage(epoch, dict(enumerate(by_subtask)))
        self.sink().publish(Epoch(epoch), self.staged[epoch])
        self.rows[epoch] = [row for rows in by_subtask for row in rows]

    def expected(self) -> list[Row]:
        """All rows, as a reader of every change gets them."""
        return in_order({**row, "_epoch": epoch} for epoch, rows in self.rows.items() for row in rows)

    def read(self) -> list[Row]:
        """All rows, by the documented rule."""
        description = read_output_description(self.store)
        assert description is not None
        found = [read_rows(self.store, path, description) for path, _ in steady_files(self.store)]
        return in_order(row for table in found for row in table.to_pylist())

    def table(self) -> dict[Any, Any]:
        """{key: value} after all epochs."""
        newest: dict[Any, Any] = {}
        for epoch in sorted(self.rows):
            newest |= {row["k"]: row for row in self.rows[epoch]}
        return {key: row["v"] for key, row in newest.items() if row["_op"] != "delete"}


def in_order(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: repr((row["_epoch"], row["k"], row)))


def change(k: str | None, v: float | None, n: int = 0) -> Row:
    """A row that sets k to v; None deletes it."""
    return {"k": k, "n": n, "v": v, "_op": "delete" if v is None else "upsert"}


def marked_epochs(store: ObjectStore) -> tuple[Epoch, ...]:
    """Return the epochs that are published completely, in order."""
    parsed = (output_paths.parse_epoch_marker_path(path) for path, _ in store.list(output_paths.EPOCH_MARKERS))
    return tuple(epoch for epoch in parsed if epoch is not None)


def read_marker(store: ObjectStore, epoch: Epoch) -> EpochMarker | None:
    """Return the marker of an epoch; None if it has none."""
    path = output_paths.epoch_marker_path(epoch)
    data = store.get(path)
    return None if data is None else decode_as(MARKER, EpochMarker, data, where=path)
