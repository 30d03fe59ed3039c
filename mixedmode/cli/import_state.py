"""The command `mixedmode import-state`, and its report."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixedmode.cli.messages import errors_as_messages, screen_print
from mixedmode.cli.options import JobFile, Overrides

if TYPE_CHECKING:
    from mixedmode.config import JobSpec
    from mixedmode.driver.importing import ImportedState  # which imports Spark

Place = Annotated[
    Path, typer.Option("--from", metavar="FOLDER", help="The checkpointLocation of Spark's query, which is stopped.")
]


def import_state(job: JobFile, place: Place, overrides: Overrides = None) -> None:
    """Take over the checkpoint of a query of Spark, with its state. The job must not have one yet."""
    with errors_as_messages():
        from mixedmode.cli.doctor import require_environment
        from mixedmode.config import load_job

        loaded = load_job(job, overrides or ())
        require_environment([])
        from mixedmode.driver import importing

        screen_print(import_report(importing.import_state(str(place), loaded.spec, loaded.where), loaded.spec))


def import_report(found: "ImportedState", spec: "JobSpec") -> str:
    """Return what an import did, and what the job's next start will do."""
    return "\n".join(_lines(found, spec))


def _lines(found: "ImportedState", spec: "JobSpec") -> Iterator[str]:
    from mixedmode.cli.display import watermark_text
    from mixedmode.counts import counted

    done = "was imported before" if found.was_done else "imported"
    yield f"{done}: {spec.name} goes on after batch {found.batch} of Spark, in {spec.execution.checkpointing.dir}"
    for source, read in found.sources.items():
        yield f"  source {source}: has read {read}"
    for step, entries in found.entries.items():
        yield f"  step {step}: {counted(entries, 'entry', 'entries')} of state"
    if found.watermark_ms:
        yield f"  watermark: {watermark_text(found.watermark_ms * 1000)}"
    for step in sorted(found.with_full_snapshot):
        yield f"  in the first epoch, {step} emits its whole table"
    yield "start it with `mixedmode run`"
