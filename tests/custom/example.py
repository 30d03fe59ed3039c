"""The example of docs/custom-connectors.md in a folder: its classes, its job, its database, and the answer."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixedmode.job import Job
from tests.docs.test_snippets import blocks

NAME = "custom-connectors.md"
Reading = tuple[str, str, float]  # when, which sensor, degrees


def python_block(with_text: str) -> str:
    """The Python block of the document that holds this text."""
    return next(b.text for b in blocks("python") if b.path.name == NAME and with_text in b.text)


@dataclass
class Example:
    """The document's job in a folder of its own; `args` are absolute, as the tests run elsewhere."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "readings.py").write_text(python_block("class Readings"), encoding="utf-8")
        (self.folder / "journal.py").write_text(python_block("class Journal"), encoding="utf-8")
        text = next(b.text for b in blocks("yaml") if b.path.name == NAME)
        text = text.replace("run/readings.db", str(self.database)).replace("run/journal.jsonl", str(self.journal))
        (self.folder / "job.yaml").write_text(text, encoding="utf-8")
        connection = sqlite3.connect(self.database)
        connection.execute("CREATE TABLE readings (id INTEGER PRIMARY KEY, at TEXT, sensor TEXT, celsius REAL)")
        connection.close()

    @property
    def database(self) -> Path:
        return self.folder / "readings.db"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "run" / "checkpoints"

    def job(self, *overrides: str) -> Job:
        """The job, with settings put over those of the file."""
        return Job.from_file(self.folder / "job.yaml", overrides)

    def add(self, readings: Iterable[Reading]) -> None:
        """Append to the table."""
        with sqlite3.connect(self.database) as connection:
            connection.executemany("INSERT INTO readings (at, sensor, celsius) VALUES (?, ?, ?)", list(readings))
        connection.close()

    def epochs(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return the epochs of the journal, in its order."""
        found: list[tuple[int, list[dict[str, Any]]]] = []
        rows: list[dict[str, Any]] = []
        for line in self.journal.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "_end" in row:
                found.append((row["_end"], rows))
                rows = []
            else:
                rows.append(row)
        assert not rows, "rows behind the end of the last epoch"
        return found

    def table(self) -> dict[str, tuple[int, float]]:
        """Return the table that the journal folds to: the last row of each key."""
        rows = {row["sensor"]: row for _, epoch in self.epochs() for row in epoch}
        return {name: (row["readings"], row["warmest"]) for name, row in rows.items() if row["_op"] != "delete"}


def answer(readings: Iterable[Reading]) -> dict[str, tuple[int, float]]:
    """Return the job's expected table for these readings, in plain Python."""
    by_sensor: dict[str, list[float]] = {}
    for _, sensor, celsius in readings:
        by_sensor.setdefault(sensor, []).append(celsius)
    return {sensor: (len(found), max(found)) for sensor, found in by_sensor.items()}


def some_readings(first: int, count: int) -> list[Reading]:
    """Readings of seven sensors."""
    numbers = range(first, first + count)
    return [(f"2024-06-{1 + n % 28:02}T08:00:00Z", f"sensor {n % 7}", float(n * 31 % 97)) for n in numbers]
