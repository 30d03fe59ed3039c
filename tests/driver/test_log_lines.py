"""The log of a run: one line per event, with its values by name."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from mixedmode.checkpoint.types import CheckedCheckpoint, Damage, Epoch
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    Notice,
    PhaseBegan,
    PublishedLate,
    RecordsExpired,
    Rescaled,
    RescaleIgnored,
    SparkLogRepaired,
    StepRescaled,
    WentBack,
)
from mixedmode.driver.log_lines import LogLines
from mixedmode.log import FIELDS
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

HOUR_MS = 3_600_000


def committed(**changes: Any) -> EpochCommitted:
    values: dict[str, Any] = {
        "epoch": Epoch(12),
        "is_backlog": False,
        "strategy": "streaming",
        "records": 5_000,
        "rows_out": 40,
        "pairs": 30,
        "state_bytes": 1_000,
        "spilled_runs": 0,
        "migration_seconds": 0.1,
        "watermark_us": HOUR_MS * 1000,
        "records_late": 0,
        "records_ahead": 0,
        "records_skipped": 0,
        "seconds": 0.5,
        "created_ms": HOUR_MS + 2_500,
    }
    return EpochCommitted(**(values | changes))


def logged(event: Event, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="mixedmode"):
        LogLines("orders")(event)
    assert {record.name for record in caplog.records} == {"mixedmode.run"}
    return [(record.levelname, record.getMessage(), getattr(record, FIELDS)) for record in caplog.records]


def test_a_committed_epoch_is_a_line_with_its_figures(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(committed(records_late=3), caplog) == [
        (
            "INFO",
            "epoch committed",
            {
                "job": "orders",
                "epoch": 12,
                "kind": "live",
                "strategy": "streaming",
                "seconds": 0.5,
                "records": 5_000,
                "records_per_second": 10_000,
                "rows_out": 40,
                "watermark": "1970-01-01T01:00:00Z",
                "lag_seconds": 2.5,
                "pairs": 30,
                "state_entries": 0,
                "state_bytes": 1_000,
                "records_late": 3,
            },
        )
    ]


@pytest.mark.parametrize(("watermark_us", "shown"), [(None, None), (MIN_TIME_US, None), (MAX_TIME_US, "end of input")])
def test_an_epoch_without_a_watermark_on_the_clock_has_no_lag(
    watermark_us: int | None, shown: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    ((_, _, values),) = logged(committed(watermark_us=watermark_us), caplog)
    assert values["watermark"] == shown
    assert "lag_seconds" not in values


@pytest.mark.parametrize(
    ("event", "level", "named"),
    [
        (PhaseBegan("starting"), "INFO", {}),
        (Notice("no files"), "WARNING", {}),
        (RecordsExpired("t", "orders", 0, 5, 8), "WARNING", {}),
        (EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"), "INFO", {"epoch": 0, "kind": "backlog"}),
        (EpochStarted(Epoch(1), is_backlog=False, strategy="streaming"), "DEBUG", {"epoch": 1, "kind": "live"}),
        (EpochFailed(Epoch(1), 1, 3, "disk full"), "WARNING", {"failures": 1, "reason": "disk full"}),
        (Flipped(0, Epoch(0)), "INFO", {"after_epoch": 0}),
        (Rescaled(Epoch(2), (StepRescaled("by_key", 2, 4),), "asked for"), "INFO", {"steps": {"by_key": [2, 4]}}),
        (RescaleIgnored("outdated"), "WARNING", {"reason": "outdated"}),
        (SparkLogRepaired(("/c/offsets/7",)), "WARNING", {"files": ["/c/offsets/7"]}),
        (PublishedLate(Epoch(7)), "WARNING", {"epoch": 7}),
    ],
)
def test_every_other_event_is_a_line_with_its_values(
    event: Event, level: str, named: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    ((found, message, values),) = logged(event, caplog)
    assert (found, bool(message)) == (level, True)
    assert values | {"job": "orders", **named} == values


def test_going_back_is_a_line_per_damaged_checkpoint_and_one_for_the_older_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    damaged = (CheckedCheckpoint(Epoch(8), (Damage("manifest", "/c/8.json", "it is missing"),)),)
    first, second = logged(WentBack(Epoch(7), damaged, 12, ("late",)), caplog)
    assert first[2] == {"job": "orders", "checkpoint": 8, "damages": ["it is missing, file=/c/8.json"]}
    assert second[2] == {"job": "orders", "checkpoint": 7, "files_rolled_back": 12, "not_rolled_back": ["late"]}


def under_way(epoch: int, seconds: float) -> EpochProgress:
    return EpochProgress(
        epoch=Epoch(epoch),
        is_backlog=True,
        seconds=seconds,
        step="by_key",
        phase="reading",
        share=0.1234,
        seconds_left=None,
        records=10,
        records_total=None,
        bytes_read=20,
        bytes_total=40,
        tasks_done=1,
        tasks_total=4,
    )


def test_an_epoch_under_way_has_a_line_every_ten_seconds_and_the_next_epoch_starts_counting_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LogLines("orders")
    with caplog.at_level(logging.INFO, logger="mixedmode"):
        for epoch in (0, 1):
            log(EpochStarted(Epoch(epoch), is_backlog=True, strategy="sorted"))
            for second in range(1, 36):
                log(under_way(epoch, second + 0.02 * second))
            log(replace(under_way(epoch, 60.0), phase="done"))
    values = [getattr(record, FIELDS) for record in caplog.records if record.getMessage() == "epoch under way"]
    assert [(one["epoch"], round(one["seconds"])) for one in values] == [
        (epoch, second) for epoch in (0, 1) for second in (10, 20, 31)
    ]
    assert values[0] == {
        "job": "orders",
        "epoch": 0,
        "kind": "backlog",
        "seconds": 10.2,
        "step": "by_key",
        "phase": "reading",
        "share": 0.123,
        "records": 10,
        "bytes_read": 20,
        "bytes_total": 40,
        "tasks_done": 1,
        "tasks_total": 4,
        "keys_share": 0.0,
        "bytes_spilled": 0,
    }
