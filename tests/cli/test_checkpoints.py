"""What `mixedmode checkpoints` says of watermarks and of the end of the input, also for manifests of format 1."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest, SourceProgress
from mixedmode.cli.checkpoints import checkpoint_report
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.checkpoint.examples import IDENTITY, a_manifest

SECOND_US = 1_000_000


def report(folder: Path, manifests: list[Manifest]) -> list[str]:
    log = CheckpointLog(ObjectStore(folder))
    log.create_identity(IDENTITY)
    for manifest in manifests:
        log.commit(manifest, CommitPermit(manifest.epoch, manifest.generation))
    console = Console(width=200)
    with console.capture() as capture:
        console.print(checkpoint_report(folder))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    ("watermark_us", "shown"),
    [
        (None, "none"),
        (MIN_TIME_US, "none"),
        (-SECOND_US, "1969-12-31 23:59:59"),
        (951_782_400 * SECOND_US + 999_999, "2000-02-29 00:00:00"),
        (253_402_300_800 * SECOND_US, "10000-01-01 00:00:00"),
        (MAX_TIME_US, "end of input"),
    ],
)
def test_the_watermark_of_the_job_is_shown(tmp_path: Path, watermark_us: int | None, shown: str) -> None:
    (line,) = (x for x in report(tmp_path, [replace(a_manifest(), watermark_us=watermark_us)]) if "sorted" in x)
    assert f"  {shown}  " in line


def test_a_manifest_that_knows_only_its_sources_watermarks_shows_the_smallest(tmp_path: Path) -> None:
    sources = {
        "a": SourceProgress(1, 5 * SECOND_US, 3 * SECOND_US),
        "b": SourceProgress(1, 5 * SECOND_US, 2 * SECOND_US),
        "c": SourceProgress(0, None, None),
    }
    (line,) = (x for x in report(tmp_path, [replace(a_manifest(), sources=sources)]) if "sorted" in x)
    assert "  1970-01-01 00:00:02  " in line


def test_a_job_whose_input_has_ended_is_said_to_have_ended(tmp_path: Path) -> None:
    assert report(tmp_path, [a_manifest()])[0] == "airport-delays: 1 checkpoints, max-parallelism 128"
    final = replace(a_manifest(1), is_final=True, offsets="", watermark_us=MAX_TIME_US)
    shown = report(tmp_path, [final])
    assert shown[0] == "airport-delays: 2 checkpoints, max-parallelism 128; its input has ended"
    (line,) = (x for x in shown if "streaming" in x)
    assert line.split()[8:11] == ["end", "of", "input"], "there are no offsets to show"
