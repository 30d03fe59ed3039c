"""`mixedmode checkpoints DIR`: the contents of a checkpoint folder."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mixedmode.checkpoint.go_back import spark_listing
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.rescale import NOTHING, RescaleRequest
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.runs import state_bytes
from mixedmode.checkpoint.spark_log import source_lines
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest, OperatorState
from mixedmode.checkpoint.verify import Verifier
from mixedmode.cli.consoles import human_bytes, plain_table, utc_text
from mixedmode.cli.display import watermark_text
from mixedmode.counts import counted
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.state.lists import list_bytes
from mixedmode.tasks.task_state import live_entries

_ENTRIES_ARE_NOT_KEYS = (
    "Entries are not live keys: a key counts in every run that has it, and a deleted key counts until runs are merged. "
    "--count reads all runs, and counts the live ones."
)
_ATTEMPTS = 5  # a new attempt, with the newest checkpoint, if the job drops the one that is being read
_NUMBERS = ("subtasks", "records", "rows out", "pairs", "state")


def checkpoint_report(directory: Path | str, *, counts: bool = False) -> Group | str:
    """Return a table of epochs, and tables of the newest checkpoint's state.

    Damaged manifests are marked as damaged.  counts: read all runs, and add the numbers of live entries.
    """
    log = CheckpointLog(ObjectStore(str(directory)))
    identity = None if Path(directory).is_file() else log.read_identity()
    if identity is None:
        msg = (
            "this is not a checkpoint folder: there is no job.json in it. Name the folder that the job file gives in "
            f"execution.checkpointing.dir. folder={directory}"
        )
        raise InvalidJobError(msg)
    manifests, live = _counted(log) if counts else (_manifests(log), None)
    if not manifests:
        return f"{identity.name}: no checkpoint yet (a backlog that is still running takes none)"
    newest = manifests[-1]
    ended = "; its input has ended" if isinstance(newest, Manifest) and newest.is_final else ""
    title = (
        f"{identity.name}: {counted(len(manifests), 'checkpoint')}, max-parallelism {identity.max_parallelism}{ended}"
    )
    parts: list[Table | str] = [title, _epoch_table(manifests)]
    if isinstance(newest, Manifest) and newest.operators:
        parts.append(operator_table(newest, live))
    if isinstance(newest, Manifest) and newest.list_states:
        parts.append(list_table(newest))
    if isinstance(newest, Manifest) and newest.step_watermarks:
        parts.append(_step_watermarks(newest))
    request = RescaleLog(log.store).newest()
    if request is not None and request.wanted != NOTHING:
        parts.append(_rescale_line(request))
    return Group(*parts)


def _manifests(log: CheckpointLog) -> list[Manifest | CorruptStateError]:
    """Return the manifests, oldest first, without those that a live job drops meanwhile; the error of a damaged one."""
    for _ in range(_ATTEMPTS):
        epochs, found = log.epochs(), list[Manifest | CorruptStateError]()
        for epoch in epochs:
            try:
                manifest = log.get(epoch)
            except CorruptStateError as error:
                found.append(error)
            else:
                found += [] if manifest is None else [manifest]
        if found or not epochs:
            return found
    raise _too_fast(log)


def _counted(log: CheckpointLog) -> tuple[list[Manifest | CorruptStateError], list[int]]:
    """Return the manifests, and the live entries of each step after the newest one.

    Raise CorruptStateError if a run is damaged, RetryableError if the job drops each checkpoint before it is counted.
    """
    for _ in range(_ATTEMPTS):
        manifests = _manifests(log)
        newest = manifests[-1] if manifests else None
        if not isinstance(newest, Manifest):
            return manifests, []
        groups = newest.max_parallelism
        try:
            return manifests, [live_entries(log.store, one, max_parallelism=groups) for one in newest.operators]
        except CorruptStateError:
            if log.get(newest.epoch) is not None:  # else the job dropped it during the count
                raise
    raise _too_fast(log)


def _too_fast(log: CheckpointLog) -> RetryableError:
    return RetryableError(
        "the job drops its checkpoints faster than they can be read. Set a larger "
        "execution.checkpointing.num-retained, start the job again, and then run this command again. "
        f"folder={log.store.url}, attempts={_ATTEMPTS}"
    )


def verification_report(directory: Path | str) -> str:
    """Return the damages of each checkpoint, a line each, and the number of undamaged checkpoints. All runs are read.

    Outputs are not checked, since their places are in the job file.
    """
    log = CheckpointLog(ObjectStore(str(directory)))
    verifier = Verifier(log, {}, True, spark_listing(log), log.goings_back())
    checked = [verifier.check(epoch)[1] for epoch in reversed(log.epochs())]
    kept = set(log.epochs())  # a live job may have dropped others meanwhile
    checked = [one for one in checked if one.epoch in kept]
    lines = [f"damaged: checkpoint {one.epoch}: {damage}" for one in checked for damage in one.damages]
    whole = sum(not one.damages for one in checked)
    return "\n".join([*lines, f"{whole} of {len(checked)} checkpoints are whole, as far as outputs are not concerned"])


def _epoch_table(manifests: list[Manifest | CorruptStateError]) -> Table:
    headings = ("epoch", "backlog", "strategy", *_NUMBERS, "watermark", "offsets", "taken at")
    table = plain_table(headings, numbers=_NUMBERS)
    for manifest in manifests:
        if isinstance(manifest, CorruptStateError):
            table.add_row("?", "damaged", str(manifest))
            continue
        size = sum(state_bytes(operator.runs) for operator in manifest.operators)
        table.add_row(
            str(manifest.epoch),
            _backlog(manifest),
            manifest.strategy,
            str(manifest.parallelism),
            f"{manifest.records_in:,}",
            f"{manifest.rows_out:,}",
            f"{manifest.pairs:,}",
            human_bytes(size),
            watermark_text(manifest.watermark_us),
            _offsets(manifest.offsets),
            utc_text(manifest.created_ms),
        )
    return table


def _backlog(manifest: Manifest) -> str:
    """Return whether the epoch was backlog, with the sources in backlog if others were not."""
    if not manifest.is_backlog:
        return "no"
    every = {name for entry in manifest.sources for name in entry.split("+")}
    names = manifest.backlog_sources
    return f"yes: {', '.join(names)}" if names and set(names) < every else "yes"


def _rescale_line(request: RescaleRequest) -> str:
    parts = [] if request.wanted.job is None else [str(request.wanted.job)]
    parts += [f"of step {step} {count}" for step, count in request.wanted.steps.items()]
    why = f": {request.reason}" if request.is_automatic else ""
    return f"subtasks asked for at {utc_text(request.created_ms)}: {', '.join(parts)}{why}"


def operator_table(manifest: Manifest, live: Sequence[int] | None = None) -> Table:
    """Return a table of the state of each step after a manifest's epoch.  live: the live entries of each step."""
    numbers = ("subtasks", "runs", "entries", "deletions", *([] if live is None else ["live"]), "bytes")
    headings = ("operator", *numbers, "key groups")
    table = plain_table(headings, numbers=numbers, title=f"state after epoch {manifest.epoch}")
    for number, operator in enumerate(manifest.operators):
        ranges = sorted({(run.key_group_start, run.key_group_end) for run in operator.runs})
        table.add_row(
            operator.operator_id,
            str(operator.parallelism),
            str(len(operator.runs)),
            f"{sum(run.entries for run in operator.runs):,}",
            f"{sum(run.deletions for run in operator.runs):,}",
            *([] if live is None else [f"{live[number]:,}"]),
            human_bytes(state_bytes(operator.runs)),
            Text(" ".join(f"[{start}, {end})" for start, end in ranges)),
        )
    if live is None and any(_counts_twice(operator) for operator in manifest.operators):
        table.caption, table.caption_justify = Text(_ENTRIES_ARE_NOT_KEYS), "left"
    return table


def _counts_twice(operator: OperatorState) -> bool:
    """Return whether the entries may be more than the live keys.

    They may if runs of one state share key groups or have deletions, or if a rescaling has cut a run: it counts whole.
    """
    runs = sorted(operator.runs, key=lambda run: (run.state_id, run.key_group_start))
    overlap = any(
        one.state_id == other.state_id and other.key_group_start < one.key_group_end for one, other in pairwise(runs)
    )
    return overlap or any(run.deletions or run.clipped_from is not None for run in runs)


def list_table(manifest: Manifest) -> Table:
    """Return a table of the list state of each map step after a manifest's epoch."""
    numbers = ("subtasks", "items", "bytes")
    headings = ("operator", "redistribution", *numbers)
    table = plain_table(headings, numbers=numbers, title=f"lists after epoch {manifest.epoch}")
    for state in manifest.list_states:
        table.add_row(
            state.operator_id,
            state.redistribution or "none",
            str(len(state.lists)),
            f"{sum(map(len, state.lists)):,}",
            human_bytes(list_bytes(state.lists)),
        )
    return table


def _step_watermarks(manifest: Manifest) -> Table:
    """Return a table of the watermarks of the steps that only some of the sources reach; others have the job's."""
    table = plain_table(("operator", "watermark"), title=f"watermarks after epoch {manifest.epoch}")
    for name, watermark_us in manifest.step_watermarks.items():
        table.add_row(name, watermark_text(watermark_us))
    table.add_row("all others", watermark_text(manifest.watermark_us))
    return table


def _offsets(text: str) -> str:
    """Return the offsets of each source in an entry of Spark's log."""
    lines = source_lines(text)
    try:
        return " ".join(str(offset.get("logOffset", line)) for line in lines for offset in (json.loads(line),))
    except (ValueError, AttributeError):
        return " ".join(lines)
