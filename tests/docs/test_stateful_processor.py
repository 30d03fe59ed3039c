"""The example of docs/stateful-processor.md without Spark: its class and its job file, in all modes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mixedmode.config import ProcessStep
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.testing import FunctionHarness
from tests.docs.examples import example_of

NAME = "docs/stateful-processor.md"
START = datetime(2026, 1, 1, tzinfo=UTC)


def reports(*minutes: int) -> list[dict[str, Any]]:
    return [
        {"sensor": "a", "temperature": float(minute), "at": START + timedelta(minutes=minute)} for minute in minutes
    ]


def test_the_example_finds_silent_sensors_in_backlog_and_live(tmp_path: Path) -> None:
    with example_of(NAME, tmp_path) as spec:
        (step,), (source,) = spec.steps, spec.sources.values()
        assert isinstance(step, ProcessStep)
        assert isinstance(source, FileSourceSpec)
        assert source.schema_ddl is not None
        assert step.time_mode is not None
        for backlog in (True, False):
            harness = FunctionHarness(
                step.process,
                key_by=step.key_by,
                schema=source.schema_ddl,
                output=step.output,
                time_mode=step.time_mode,
                event_time=source.event_time,
                out_of_orderness=f"{source.watermark.out_of_orderness_ms}ms",
                backlog=backlog,
            )
            harness.feed(reports(0, 5, 30))
            if backlog:
                harness.flip()
            harness.feed(reports(32, 50))
            assert [row["temperature"] for row in harness.take()] == [5.0, 32.0]
            harness.end()
            assert [row["temperature"] for row in harness.take()] == [50.0]
