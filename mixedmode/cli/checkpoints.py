"""`mixedmode checkpoints DIR`: what a checkpoint folder holds."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.cli.display import human_bytes
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.time import MAX_TIME_US, MIN_TIME_US


def checkpoint_report(directory: Path) -> Group | str:
    """A table of epochs, and one of the newest checkpoint's operators. Damaged manifests are shown as such."""
    log = CheckpointLog(ObjectStore(str(directory)))
    identity = log.read_identity()
    if identity is None:
        msg = (
            "this is not a checkpoint folder: there is no job.json in it. Name the folder that the job file gives in "
            f"execution.checkpointing.dir. folder={directory}"
        )
        raise InvalidJobError(msg)
    epochs = log.epochs()
    if not epochs:
        return f"{identity.name}: no checkpoint yet (a backlog that is still running takes none)"
    manifests: list[Manifest | CorruptStateError] = []
    for epoch in epochs:
        try:
            manifest = log.get(epoch)
            assert manifest is not None, epoch
            manifests.append(manifest)
        except CorruptStateError as error:
            manifests.append(error)
    newest = manifests[-1]
    ended = "; its input has ended" if isinstance(newest, Manifest) and newest.is_final else ""
    title = f"{identity.name}: {len(epochs)} checkpoints, max-parallelism {identity.max_parallelism}{ended}"
    parts: list[Table | str] = [title, _epoch_table(manifests)]
    if isinstance(newest, Manifest) and newest.operators:
        parts.append(_operator_table(newest))
    return Group(*parts)


def _epoch_table(manifests: list[Manifest | CorruptStateError]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in (
        "epoch",
        "backlog",
        "path",
        "records",
        "rows out",
        "pairs",
        "state",
        "watermark",
        "offsets",
        "taken at",
    ):
        table.add_column(heading, justify="right" if heading in {"records", "rows out", "pairs", "state"} else "left")
    for manifest in manifests:
        if isinstance(manifest, CorruptStateError):
            table.add_row("?", "damaged", str(manifest))
            continue
        state_bytes = sum(run.bytes for operator in manifest.operators for run in operator.runs)
        table.add_row(
            str(manifest.epoch),
            "yes" if manifest.is_backlog else "no",
            manifest.path,
            f"{manifest.records_in:,}",
            f"{manifest.rows_out:,}",
            f"{manifest.pairs:,}",
            human_bytes(state_bytes),
            _watermark(manifest),
            _offsets(manifest.offsets),
            datetime.fromtimestamp(manifest.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        )
    return table


def _operator_table(manifest: Manifest) -> Table:
    table = Table(box=None, pad_edge=False, title=f"state after epoch {manifest.epoch}", title_justify="left")
    for heading in ("operator", "runs", "entries", "bytes", "key groups"):
        table.add_column(heading, justify="left" if heading in {"operator", "key groups"} else "right")
    for operator in manifest.operators:
        ranges = sorted({(run.key_group_start, run.key_group_end) for run in operator.runs})
        table.add_row(
            operator.operator_id,
            str(len(operator.runs)),
            f"{sum(run.entries for run in operator.runs):,}",
            human_bytes(sum(run.bytes for run in operator.runs)),
            Text(" ".join(f"[{start}, {end})" for start, end in ranges)),
        )
    return table


def _watermark(manifest: Manifest) -> str:
    """The job's watermark; a manifest of format 1 has only those of its sources."""
    watermark_us = manifest.watermark_us
    if watermark_us is None:
        of_sources = [p.watermark_us for p in manifest.sources.values() if p.watermark_us is not None]
        watermark_us = min(of_sources, default=MIN_TIME_US)
    if watermark_us == MIN_TIME_US:
        return "none"
    if watermark_us == MAX_TIME_US:
        return "end of input"
    return str(np.datetime64(watermark_us // 1_000_000, "s")).replace("T", " ")  # datetime ends with the year 9999


def _offsets(text: str) -> str:
    """The sources' offsets of Spark's log entry: its lines after version and metadata."""
    lines = text.splitlines()[2:]
    try:
        return " ".join(str(offset.get("logOffset", line)) for line in lines for offset in (json.loads(line),))
    except (ValueError, AttributeError):
        return " ".join(lines)
