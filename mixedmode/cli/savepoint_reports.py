"""The texts of `mixedmode savepoint`. create_report and dispose_report also create and delete the savepoint."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table

from mixedmode.changes import fingerprint_text
from mixedmode.checkpoint.savepoint import Savepoint, dispose_savepoint, find_savepoints, savepoint_manifest
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.cli.checkpoints import list_table, operator_table
from mixedmode.cli.consoles import human_bytes, plain_table, utc_text
from mixedmode.cli.display import watermark_text
from mixedmode.config import JobSpec, load_job
from mixedmode.counts import counted
from mixedmode.driver.savepoints import savepoint_of, take_savepoint
from mixedmode.errors import CorruptStateError, InvalidJobError

if TYPE_CHECKING:
    from mixedmode.driver.restoring import RestoredJob  # which imports Spark

_JOB_FILES = (".yaml", ".yml")


def create_report(job: str, place: str, overrides: Sequence[str]) -> str:
    """Create a savepoint from a job file's checkpoint folder, or from the folder itself, and return a report."""
    savepoint = _taken(job, place, overrides)
    entries = counted(savepoint.entries, "state entry", "state entries")
    return (
        f"savepoint of {savepoint.job.name} after epoch {savepoint.epoch}: {entries}, "
        f"{counted(len(savepoint.files), 'file')}, {human_bytes(savepoint.bytes)}, verified\n{ObjectStore(place).url}"
    )


def list_report(place: str) -> Table | str:
    """Return a line per savepoint, by folder. Damaged savepoints are marked as damaged."""
    headings = ("savepoint", "job", "epoch", "taken at", "entries", "size")
    table = plain_table(headings, numbers=("entries", "size"))
    for folder, found in find_savepoints(ObjectStore(place)):
        if isinstance(found, CorruptStateError):
            table.add_row(folder, "damaged")
            continue
        size, entries = human_bytes(found.bytes), f"{found.entries:,}"
        table.add_row(folder, found.job.name, str(found.epoch), utc_text(found.taken_ms), entries, size)
    return table if table.row_count else f"no savepoint below {ObjectStore(place).url}"


def inspect_report(store: ObjectStore, savepoint: Savepoint) -> Group:
    """Return the contents of a savepoint that was verified before."""
    manifest = savepoint_manifest(store, savepoint)
    whole = f"whole, {counted(len(savepoint.files), 'file')}, {human_bytes(savepoint.bytes)}"
    lines = [
        f"savepoint of {savepoint.job.name} after epoch {savepoint.epoch}: {whole}",
        f"taken at     {utc_text(savepoint.taken_ms)}, copied at {utc_text(savepoint.created_ms)}",
        f"watermark    {watermark_text(manifest.watermark_us)}",
        f"parallelism  {manifest.parallelism}, of at most {savepoint.job.max_parallelism}",
    ]
    lines += [f"{step}: {fingerprint_text(fingerprint)}" for step, fingerprint in savepoint.job.operators.items()]
    tables = [operator_table(manifest), *([list_table(manifest)] if manifest.list_states else [])]
    return Group("\n".join(lines), *tables)


def restore_report(restored: "RestoredJob", spec: JobSpec) -> str:
    """Return what a restore did, and what the job's next start will do."""
    done = "was restored before" if restored.was_done else "restored"
    origin = f"epoch {restored.savepoint.epoch} of {restored.savepoint.job.name}"
    lines = [
        f"{done}: {spec.name} goes on after {origin}, in {spec.execution.checkpointing.dir}",
        *_steps(restored),
        *_outputs(restored),
        "start it with `mixedmode run`",
    ]
    return "\n".join(lines)


def dispose_report(place: str) -> str:
    """Delete a savepoint, and return a report."""
    store = ObjectStore(place)
    gone = dispose_savepoint(store)
    left = len(store.list())
    kept = f"; files that are not of it, and are still there: {left}" if left else ""
    return f"deleted {counted(len(gone.files), 'file')}, {human_bytes(gone.bytes)}{kept}\n{store.url}"


def _taken(job: str, place: str, overrides: Sequence[str]) -> Savepoint:
    if job.endswith(_JOB_FILES) or Path(job).is_file():
        return take_savepoint(load_job(job, overrides).spec, place)
    if overrides:
        msg = f"--set overrides a setting of a job file, and this is none. Name the job file. given={job}"
        raise InvalidJobError(msg)
    return savepoint_of(job, place)


def _steps(restored: "RestoredJob") -> Iterator[str]:
    steps = restored.steps
    if steps.kept:
        yield f"  steps that go on      {', '.join(steps.kept)}"
    if steps.added:
        yield f"  steps that are new    {', '.join(steps.added)}"
    if steps.dropped:
        yield f"  state left out        {', '.join(steps.dropped)}"


def _outputs(restored: "RestoredJob") -> Iterator[str]:
    if restored.outputs:
        count = restored.files_rolled_back
        rolled_back = f"; {counted(count, 'later file or row', 'later files or rows')} rolled back" if count else ""
        yield f"  outputs that go on    {_names(restored.outputs)}{rolled_back}"
    if restored.not_rolled_back:
        names = _names(restored.not_rolled_back)
        yield f"  not rolled back       {names}: rows that came after the savepoint stay there"
    if restored.new_outputs:
        yield f"  outputs that are new  {_names(restored.new_outputs)}"
    if restored.dropped_outputs:
        yield f"  outputs left behind   {_names(restored.dropped_outputs)}"
    for step in sorted(restored.with_full_snapshot):
        yield f"  in the first epoch    {step} emits its whole table, for what is new downstream"
    if restored.new_outputs and restored.steps.kept and not restored.with_full_snapshot:
        yield "  in the new outputs    only rows from after the savepoint: the steps keep none that they have emitted"


def _names(outputs: Sequence[str]) -> str:
    return ", ".join(name or "main" for name in outputs)
