"""A job with all of its places replaced: its sources and sinks are folders of Parquet files in one folder."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from mixedmode.config import KeyedStep, SideOutputSpec, SinkSpec
from mixedmode.config.document import Path as DocumentPath
from mixedmode.config.execution import AutoscalerSpec, RuntimeMode
from mixedmode.config.graph import MAIN
from mixedmode.config.sources import SourceSpec
from mixedmode.config.step_outputs import side_outputs_of, tag_of, with_side_outputs
from mixedmode.config.steps import Step, operator_id
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, connectors
from mixedmode.plan.side_outputs import side_output
from mixedmode.testing.schemas import schema_of

__all__ = ["declared_schemas", "input_folder", "job_in_folder", "output_folder", "output_names"]


def declared_schemas(sources: Mapping[str, SourceSpec], given: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return {source: its columns as Spark DDL}: those of `given`, else those that the source declares.

    Raise InvalidJobError, beginning with `where`, for a source without columns.
    """
    found = {}
    for name, source in sources.items():
        ddl = given.get(name) or source.declared_schema
        if ddl is None:
            msg = (
                f"{where}: the source does not declare its columns, and nothing is read from its place in a test. Add "
                f"schemas={{{name!r}: 'column type, ...'}} to the call. source={name}"
            )
            raise InvalidJobError(msg)
        found[name] = ddl
    return found


def input_folder(folder: Path, source: str) -> Path:
    """Return the folder of a source's files."""
    return folder / "in" / source


def output_folder(folder: Path, name: str) -> Path:
    """Return the folder of an output; the name of the main output is ""."""
    return folder / "out" / f"to-{quote(name, safe='')}"


def job_in_folder(job: Job, schemas: Mapping[str, str], folder: Path, mode: RuntimeMode) -> Job:
    """Return the same job in this mode, whose sources, sinks and checkpoints are below `folder`.

    schemas: {source: its columns as Spark DDL}.
    """
    execution = job.settings.execution
    update = {
        "sources": {name: _source(one, schemas[name], folder, name) for name, one in job.settings.sources.items()},
        "execution": execution.model_copy(
            update={
                "runtime_mode": mode,
                "interval_during_backlog_ms": None,
                "autoscaler": AutoscalerSpec(),
                "checkpointing": execution.checkpointing.model_copy(
                    update={"dir": None if mode is RuntimeMode.BATCH else str(folder / "checkpoints")}
                ),
            }
        ),
    }
    steps, keyed_before = list[Step](), 0
    for step in job.steps:
        steps.append(_step(step, keyed_before, folder))
        keyed_before += isinstance(step, KeyedStep)
    return job.placed(
        job.settings.model_copy(update=update),
        tuple(steps),
        {name: Sink.parquet(output_folder(folder, name)) for name in job.results or (MAIN,)},
    )


def output_names(job: Job) -> list[str]:
    """Return the names of all outputs of a job, those of whole steps first; that of a job with a chain is ""."""
    keyed = [step for step in job.steps if isinstance(step, KeyedStep)]
    return [
        *(job.results or (MAIN,)),
        *(name for before, step in enumerate(keyed) for name in _side_names(step, before)),
    ]


def _side_names(step: KeyedStep, keyed_before: int) -> list[str]:
    own_id = operator_id(step, keyed_before)
    return [side_output(own_id, tag_of(path)) for path in side_outputs_of(step)]


def _source(source: SourceSpec, ddl: str, folder: Path, name: str) -> FileSourceSpec:
    """Return the source as files with these columns. Those computed columns that the rows have are not computed."""
    columns = {column.lower() for column in schema_of(ddl, where=name).names}
    computed = source.declaring.computed_columns
    given = {
        "format": "parquet",
        "path": str(input_folder(folder, name)),
        "schema": ddl,
        "computed-columns": {made: text for made, text in computed.items() if made.lower() not in columns},
        "event-time": source.event_time,
        "watermark": source.watermark,
    }
    return FileSourceSpec.model_validate(given)


def _step(step: Step, keyed_before: int, folder: Path) -> Step:
    """Return the step with all of its side outputs in folders of their own."""
    own_id = operator_id(step, keyed_before) if isinstance(step, KeyedStep) else ""
    placed = dict[DocumentPath, SinkSpec]()
    for path, sink in side_outputs_of(step).items():
        place = output_folder(folder, side_output(own_id, tag_of(path)))
        if isinstance(sink, SideOutputSpec):
            placed[path] = connectors.side_output(Sink.parquet(place), schema=sink.schema_ddl)
        else:
            placed[path] = Sink.parquet(place)
    return with_side_outputs(step, placed)
