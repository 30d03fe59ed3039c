"""The options of a backfill on the command line."""

from pathlib import Path

import pytest

from mixedmode import Job, Sink, Source
from mixedmode.cli.backfill import run_backfill
from mixedmode.config.load import load_job
from mixedmode.errors import InvalidJobError


@pytest.mark.parametrize(
    ("start", "end", "alone"),
    [("2026-01-01T00:00:00Z", None, True), (None, "2026-01-01T00:00:00Z", True), ("a", "b", False)],
)
def test_a_backfill_needs_both_bounds_and_no_options_of_a_running_job(
    tmp_path: Path, start: str | None, end: str | None, alone: bool
) -> None:
    job = Job("j", sources={"t": Source.parquet(tmp_path / "in")}, mode="batch").sql("SELECT * FROM t")
    (tmp_path / "job.yaml").write_text(job.write(Sink.console()).to_yaml())
    with pytest.raises(InvalidJobError, match="needs both --from and --to, and ends by itself"):
        run_backfill(load_job(tmp_path / "job.yaml"), start, end, [], alone=alone)
