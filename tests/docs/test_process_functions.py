"""The example of docs/process-functions.md without Spark: its class, its job file, its records, the rows it shows."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import ProcessStep
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.process import KeyedBatchProcessFunction, KeyedProcessFunction
from mixedmode.testing import FunctionHarness
from tests.docs.examples import example_of, records_of, tables_of
from tests.docs.test_snippets import blocks

NAME = "docs/process-functions.md"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FunctionHarness]:
    """The step of the job file, with the class beside it, in backlog."""
    with example_of(NAME, tmp_path) as spec:
        (step,), (source,) = spec.steps, spec.sources.values()
        assert isinstance(step, ProcessStep)
        assert isinstance(source, FileSourceSpec)
        assert source.schema_ddl is not None
        yield FunctionHarness(
            step.process,
            key_by=step.key_by,
            schema=source.schema_ddl,
            output=step.output,
            args=step.args,
            outputs={tag: output.schema_ddl for tag, output in step.outputs.items()},
            event_time=source.event_time,
            out_of_orderness=f"{source.watermark.out_of_orderness_ms}ms",
            backlog=True,
        )


def fed() -> list[list[dict[str, Any]]]:
    """The records of each file that the document writes, with their time as one."""
    return [
        [{**record, "at": datetime.fromisoformat(record["at"])} for record in records] for records in records_of(NAME)
    ]


def shown(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[str(value) for value in row.values()] for row in rows]


def test_the_example_gives_the_rows_that_the_document_shows(harness: FunctionHarness) -> None:
    history, later = fed()
    harness.feed(history)
    harness.flip()
    first, second = tables_of(NAME)
    assert shown(harness.table()) == first
    assert harness.side("unknown") == [{"order_id": 3, "what": "asked"}]
    harness.feed(later)
    assert shown(harness.table()) == second
    harness.end()
    assert [row["order_id"] for row in harness.table()] == [2, 3, 4]


def test_the_other_classes_of_the_document_do_what_it_says() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        if block.path.name == Path(NAME).name:
            exec(compile(block.text, str(block), "exec"), names)
    assert issubclass(names["InEuros"], KeyedProcessFunction)
    euros = FunctionHarness(
        names["InEuros"],
        key_by="order_id",
        schema="order_id long, amount double, currency string",
        output="order_id long, amount double",
    )
    euros.feed([{"order_id": 1, "amount": 10.0, "currency": "USD"}])
    assert euros.take() == [{"order_id": 1, "amount": 9.0}]
    assert issubclass(names["Largest"], KeyedBatchProcessFunction)
    largest = FunctionHarness(
        names["Largest"],
        key_by="customer",
        schema="customer string, amount double",
        output="customer string, amount double",
    )
    for amounts, expected in (([3.0, 5.0], [5.0]), ([4.0], []), ([6.0, 1.0], [6.0])):
        largest.feed([{"customer": "a", "amount": amount} for amount in amounts])
        assert [row["amount"] for row in largest.take()] == expected
