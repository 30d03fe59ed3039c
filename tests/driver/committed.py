"""A committed epoch, for tests of what is told of it."""

from dataclasses import replace
from typing import Any

from mixedmode.checkpoint.types import Epoch
from mixedmode.driver.events import EpochCommitted

_EXAMPLE = EpochCommitted(
    epoch=Epoch(0),
    is_backlog=False,
    strategy="sorted",
    records=100,
    rows_out=10,
    pairs=10,
    state_bytes=100,
    spilled_runs=0,
    migration_seconds=0.1,
    watermark_us=None,
    records_late=0,
    records_ahead=0,
    records_skipped=0,
    seconds=2.0,
    created_ms=0,
)


def epoch_committed(epoch: int, **values: Any) -> EpochCommitted:
    """Return the event of this epoch with these values."""
    return replace(_EXAMPLE, epoch=Epoch(epoch), **values)
