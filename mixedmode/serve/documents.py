"""Events and manifests as documents of the API: JSON objects whose names hold the unit. Pure.

Times are milliseconds since 1970, UTC. What is unknown is null: a manifest does not hold how long its epoch took.
A value that this process has looked up as a secret is replaced by its reference in every text of an answer (I1).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, assert_never

import msgspec

from mixedmode.checkpoint.paths import parse_run_path
from mixedmode.checkpoint.runs import state_bytes
from mixedmode.checkpoint.types import Epoch, JoinFigures, Manifest, OperatorState, epoch_kind
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
    WentBack,
)
from mixedmode.secrets import has_secrets_in_json, hidden
from mixedmode.state.lists import list_bytes
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

__all__ = ["Document", "as_json", "epoch_document", "event_document", "manifest_document", "watermark_ms"]

Document = dict[str, Any]
_SURROGATE = re.compile("[\ud800-\udfff]")
_FAST = msgspec.json.Encoder()  # a tenth of the time, which is the most of a point read's JSON
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def as_json(document: object) -> str:
    """Return a document as JSON on one line, without secrets. The text can be encoded as UTF-8.

    JSON has no infinite numbers, so they become null. Half of a pair of surrogates is escaped, as JSON allows.
    """
    try:
        text = _FAST.encode(document).decode()  # an infinite number is null here, too
    except (TypeError, ValueError, OverflowError):  # a mapping that is no dict, half of a pair, an int beyond 64 bits
        text = _ENCODER.encode(_cleaned(document))
    else:
        # most answers have no secret, and walking through all of their values costs more than writing them
        text = _ENCODER.encode(_cleaned(document)) if has_secrets_in_json(text) else text
    return text if text.isascii() else _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {hidden(str(name)): _cleaned(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value


def watermark_ms(watermark_us: int | None) -> int | None:
    """Return a watermark; None if there is none, or if it is the end of the input."""
    if watermark_us is None or not MIN_TIME_US < watermark_us < MAX_TIME_US:
        return None
    return watermark_us // 1000


def manifest_document(manifest: Manifest) -> Document:
    """Return an epoch as its manifest holds it."""
    watermark = watermark_ms(manifest.watermark_us)
    return {
        "epoch": manifest.epoch,
        "kind": epoch_kind(is_backlog=manifest.is_backlog),
        "strategy": manifest.strategy,
        "committed_ms": manifest.created_ms,
        "seconds": None,
        "records": manifest.records_in,
        "records_per_second": None,
        "rows_out": manifest.rows_out,
        "records_late": manifest.records_late,
        "records_ahead": manifest.records_ahead,
        "records_skipped": manifest.records_skipped,
        "spilled_runs": None,
        "watermark_ms": watermark,
        "event_time_lag_seconds": None if watermark is None else (manifest.created_ms - watermark) / 1000,
        "processing_lag_seconds": None,
        "state_bytes": sum(state_bytes(operator.runs) for operator in manifest.operators),
        "stage_seconds": None,
        "rows_read": dict(manifest.rows_read),
        "joins": {step: _join(figures) for step, figures in manifest.joins.items()},
        "steps": _steps(manifest),
        "sources": {
            name: {"records": progress.records, "watermark_ms": watermark_ms(progress.watermark_us)}
            for name, progress in manifest.sources.items()
        },
        "outputs": _output_rows(manifest),
        "backlog_sources": list(manifest.backlog_sources),
        "start": manifest.generation,
        "is_final": manifest.is_final,
    }


def _steps(manifest: Manifest) -> Document:
    """Return {step: its subtasks and its state}, of the steps that keep state."""
    lists = {
        state.operator_id: {
            "subtasks": len(state.lists),
            "runs": 0,
            "entries": sum(map(len, state.lists)),
            "bytes": list_bytes(state.lists),
        }
        for state in manifest.list_states
    }
    return lists | {
        operator.operator_id: {
            "subtasks": operator.parallelism,
            "runs": len(operator.runs),
            "entries": sum(run.entries for run in operator.runs),
            "bytes": state_bytes(operator.runs),
            "updated": _updated(operator, manifest.epoch),
        }
        for operator in manifest.operators
    }


def _updated(operator: OperatorState, epoch: Epoch) -> int:
    """Return how many entries of state an epoch wrote. Runs that only merge older ones do not count."""
    own = (run for run in operator.runs if not run.merged_from and run.clipped_from is None)
    return sum(run.entries for run in own if (file := parse_run_path(run.path)) is not None and file.epoch == epoch)


def _output_rows(manifest: Manifest) -> dict[str, int]:
    """Return {output: rows of the epoch}; the main output is ""."""
    found = dict.fromkeys(manifest.output_names, 0)
    for file in manifest.outputs:
        found[file.sink] = found.get(file.sink, 0) + file.rows
    return found


def epoch_document(event: EpochCommitted) -> Document:
    """Return an epoch that this process has committed."""
    lag = event.lag_seconds
    stored = {} if event.manifest is None else manifest_document(event.manifest)
    return stored | {
        "epoch": event.epoch,
        "kind": epoch_kind(is_backlog=event.is_backlog),
        "strategy": event.strategy,
        "committed_ms": event.created_ms,
        "seconds": round(event.seconds, 3),
        "records": event.records,
        "records_per_second": round(event.records_per_second, 1),
        "rows_out": event.rows_out,
        "records_late": event.records_late,
        "records_ahead": event.records_ahead,
        "records_skipped": event.records_skipped,
        "spilled_runs": event.spilled_runs,
        "watermark_ms": watermark_ms(event.watermark_us),
        "event_time_lag_seconds": None if lag is None else round(lag, 3),
        "processing_lag_seconds": event.processing_lag_seconds,
        "state_bytes": event.state_bytes,
        "stage_seconds": {stage: round(seconds, 4) for stage, seconds in event.profile.items()},
        "rows_read": dict(event.rows_read),
        "joins": {step: _join(figures) for step, figures in event.joins.items()},
    }


def _join(figures: JoinFigures) -> Document:
    left, right = figures.late
    return {
        "rows_late_left": left,
        "rows_late_right": right,
        "fan_out_max": figures.fan_out_max,
        "fan_out_p99": figures.fan_out_p99,
    }


def event_document(event: Event) -> tuple[str, Document]:  # noqa: C901, PLR0912  # one case for each kind of event
    """Return (name of an event in the stream, its document)."""
    match event:
        case PhaseBegan(phase):
            return "phase", {"phase": phase}
        case Notice(text):
            return "notice", {"text": text}
        case RecordsExpired():
            return "notice", {"text": event.text}
        case EpochStarted(epoch, is_backlog, strategy):
            return "epoch-started", {"epoch": epoch, "kind": epoch_kind(is_backlog=is_backlog), "strategy": strategy}
        case EpochProgress():
            document = asdict(event)
            return "progress", {"kind": epoch_kind(is_backlog=document.pop("is_backlog")), **document}
        case EpochCommitted():
            return "epoch", epoch_document(event)
        case EpochFailed():
            return "epoch-failed", asdict(event)
        case Flipped(at_ms, after_epoch):
            return "flip", {"at_ms": at_ms, "after_epoch": after_epoch}
        case Rescaled():
            return "rescaled", asdict(event)
        case RescaleIgnored(reason):
            return "rescale-ignored", {"reason": reason}
        case WentBack():
            return "went-back", {
                "to": event.to,
                "damaged": [
                    {"epoch": one.epoch, "damages": [str(damage) for damage in one.damages]} for one in event.damaged
                ],
                "files_rolled_back": event.files_rolled_back,
                "not_rolled_back": list(event.not_rolled_back),
            }
        case SparkLogRepaired(files):
            return "spark-log-repaired", {"files": list(files)}
        case PublishedLate(epoch):
            return "published-late", {"epoch": epoch}
        case _:
            assert_never(event)
