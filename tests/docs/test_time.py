"""The tables of docs/time.md, held against the operators: what falls into which window, what is late, given, left out.

A table stands behind the job file that it is about, so each row is fed to the step of that file.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import JobSpec, KeyedAggregateStep, format_duration_ms, load_job
from mixedmode.plan.keyed_operators import StepColumns, aggregate_operator
from mixedmode.testing import OperatorHarness
from tests.docs.test_snippets import Block, document, job_text, rows_of_tables

NAME = "docs/time.md"
DAY = "2024-05-01"  # of times that have none
WITH_TABLE = re.compile(r"^```yaml\n((?:(?!```).*\n)+)```\n\n((?:\|.*\n)+)", re.MULTILINE)
INTERVAL = re.compile(r"`\[([^,]+), ([^)]+)\)`")


def examples(heading: str) -> list[tuple[str, list[list[str]]]]:
    """(job file, rows of the table after it) for all tables of this heading."""
    found = [(match[1], rows_of_tables(match[2], heading)) for match in WITH_TABLE.finditer(document(NAME))]
    return [(job, rows) for job, rows in found if rows]


def instant(text: str) -> datetime:
    """`10:20` of DAY, or a date with a time; UTC."""
    return datetime.fromisoformat(text if "-" in text else f"{DAY} {text}").replace(tzinfo=UTC)


def instants(cell: str) -> list[datetime]:
    return [] if cell == "-" else [instant(text) for text in cell.split(", ")]


def windows(cell: str) -> list[tuple[datetime, datetime]]:
    return [(instant(start), instant(end)) for start, end in INTERVAL.findall(cell)]


def spec_of(job: str, folder: Path) -> JobSpec:
    (folder / "job.yaml").write_text(job_text(Block(Path(NAME), 1, job)), encoding="utf-8")
    return load_job(folder / "job.yaml").spec


def harness_of(spec: JobSpec) -> OperatorHarness:
    """The un-keyed windowed step of a job, by itself."""
    (step,) = spec.steps
    assert isinstance(step, KeyedAggregateStep)
    columns = StepColumns((), {}, has_event_time=True, is_changelog=False)
    operator = aggregate_operator(step, columns, lambda *path: str(path))
    (source,) = spec.sources.values()
    bound = format_duration_ms(source.watermark.out_of_orderness_ms)
    return OperatorHarness(operator, key_by=(), schema="at timestamp", event_time="at", out_of_orderness=bound)


def rows_at(times: Sequence[datetime]) -> list[dict[str, Any]]:
    return [{"at": time} for time in times]


@pytest.mark.parametrize(("job", "table"), examples("records at"))
def test_a_record_falls_into_the_windows_that_the_table_says(job: str, table: list[list[str]], tmp_path: Path) -> None:
    spec = spec_of(job, tmp_path)
    for records, expected in table:
        harness = harness_of(spec)
        harness.feed(rows_at(instants(records)))
        harness.end()
        found = [(row["window_start"], row["window_end"]) for row in harness.take()]
        assert sorted(found) == sorted(windows(expected)), records


def test_every_kind_of_window_has_a_table() -> None:
    kinds = set()
    for job, _ in examples("records at"):
        kinds |= set(re.findall(r"window: \{(\w+):", job))
    assert kinds == {"tumbling", "sliding", "cumulating", "session", "global"}


def test_epoch_by_epoch_it_goes_as_the_table_says(tmp_path: Path) -> None:
    ((job, table),) = examples("epoch")
    harness = harness_of(spec_of(job, tmp_path))
    for number, records, watermark, given, left_out in table:
        harness.feed(rows_at(instants(records)))
        assert datetime.fromtimestamp(harness.watermark / 1e6, UTC) == instant(watermark), f"epoch {number}"
        found = [((row["window_start"], row["window_end"]), row["n"], row["_op"]) for row in harness.take()]
        expected = re.findall(r"(`[^`]+`): (\d+), (\w+)", given)
        assert found == [(windows(window)[0], int(n), op) for window, n, op in expected], f"epoch {number}"
        assert [row["at"] for row in harness.late()] == instants(left_out), f"epoch {number}"
