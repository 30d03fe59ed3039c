"""A custom source of numbers. Processes of Spark import this module for each query, so it imports little."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from typing_extensions import override

from mixedmode.connectors import CustomSource


class Numbers(CustomSource):
    """The number that is in a file, and all below it; more than two at once are backlog, as the source says."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    @override
    def schema(self) -> str:
        return "n long"

    @override
    def latest(self) -> int:
        return int(self._file.read_text())

    @override
    def splits(self, start: int | None, end: int) -> list[tuple[int, int]]:
        return [(start or 0, end)]

    @override
    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array(range(*split), pa.int64())})

    @override
    def is_backlog(self, start: int | None, end: int) -> bool:
        return end - (start or 0) > 2
