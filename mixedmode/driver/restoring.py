"""Restores a savepoint to a job. Spark's analysis describes the job; the sinks describe the output folders.

The order is: verify the savepoint, decide, check the outputs; then write files; and create the manifest last. No file
is written, and no output is changed, before all checks have passed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from pyspark.sql import SparkSession

from mixedmode.analysis.job import Analysis
from mixedmode.checkpoint.decide import Refused
from mixedmode.checkpoint.decide_restore import Program, Restorable, decide_restore
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.restore import (
    Restoration,
    check_moved,
    commit_restored,
    copy_restored,
    is_restored,
    moved_logs,
    restored_manifest,
)
from mixedmode.checkpoint.savepoint import Savepoint, read_savepoint, savepoint_manifest, verify_savepoint
from mixedmode.checkpoint.spark_log import offsets_of
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import SOURCES_ENTRY, Generation, JobIdentity, Manifest
from mixedmode.config import JobSpec, resolve_mode
from mixedmode.driver.engine import Engine
from mixedmode.driver.run import check_state, open_sinks, output_schemas
from mixedmode.driver.sources_read import SourcesRead
from mixedmode.driver.topic_ids import TopicIds
from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import CheckedUpsertOperator
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.sinks import Sinks
from mixedmode.spark.errors import errors_explained
from mixedmode.spark.session import open_session

__all__ = ["RestoredJob", "restore_savepoint"]


@dataclass(frozen=True, slots=True)
class RestoredJob:
    """The result of a restore. Outputs are named; "" is the main one.

    outputs: those that the job continues. dropped_outputs: outputs of the savepoint that the job does not have.
    with_full_snapshot: steps that emit their whole table in the first epoch, because a downstream step or output is
    new. files_rolled_back: how many files of continued outputs were rolled back, as they are newer than the savepoint.
    not_rolled_back: outputs of the savepoint that cannot be rolled back. was_done: the same restore had been done
    before.
    """

    savepoint: Savepoint
    steps: Restorable
    outputs: tuple[str, ...]
    new_outputs: tuple[str, ...]
    dropped_outputs: tuple[str, ...]
    with_full_snapshot: frozenset[str]
    files_rolled_back: int
    not_rolled_back: tuple[str, ...]
    was_done: bool


def restore_savepoint(
    place: str,
    spec: JobSpec,
    where: Where,
    *,
    allow_dropped: bool = False,
    moved: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
    engine: Callable[[SparkSession], Engine] = Engine,
) -> RestoredJob:
    """Fill the job's empty checkpoint folder from a savepoint (folder or URL); the job's next start goes on from it.

    moved: folders of input files that have moved since, {old: new}. After a failure or a crash, call it again. Raise
    InvalidJobError if the job cannot go on from the savepoint, CorruptStateError if it is damaged; then nothing has
    been written.
    """
    with errors_explained("not kept"):
        return _restored(
            place, spec, where, allow_dropped=allow_dropped, moved=moved or {}, session=session, engine=engine
        )


def _restored(
    place: str,
    spec: JobSpec,
    where: Where,
    *,
    allow_dropped: bool,
    moved: Mapping[str, str],
    session: SparkSession | None,
    engine: Callable[[SparkSession], Engine],
) -> RestoredJob:
    folder = spec.execution.checkpointing.dir
    if folder is None or resolve_mode(spec).mode == "batch":
        msg = (
            "a savepoint is restored to a job with checkpoints, and a batch job has none. Set execution.runtime-mode "
            f"to mixed or streaming, and execution.checkpointing.dir. name={spec.name}"
        )
        raise InvalidJobError(msg)
    source, log = ObjectStore(place), CheckpointLog(ObjectStore(folder))
    savepoint = read_savepoint(source)
    verify_savepoint(source, savepoint)
    stored = savepoint_manifest(source, savepoint)
    session = session or open_session(spec)
    analysis = engine(session).analyse(spec, where)
    plan = analysis.plan
    sinks = open_sinks(session, spec, plan, log.store.url, Generation(0))
    identity = JobIdentity(spec.name, spec.pipeline.max_parallelism, plan.fingerprints)
    steps = _decided(_program(identity, plan, sinks, savepoint.job, stored), savepoint, allow_dropped=allow_dropped)
    outputs = _going_on(sinks, plan, stored, steps)
    manifest = restored_manifest(stored, identity, steps, outputs=outputs)
    manifest = replace(manifest, source_logs=moved_logs(source, savepoint, manifest, moved))
    if identity.operators.get(SOURCES_ENTRY) != savepoint.job.operators.get(SOURCES_ENTRY):  # readers were removed
        line_sources = engine(session).inputs(spec, analysis).line_sources()
        manifest = replace(manifest, offsets=offsets_of(manifest.offsets, line_sources))
    check_state(plan, manifest)
    _check_outputs(sinks, plan, manifest)
    given = Restoration(source, savepoint, identity, manifest, dict(moved))
    check_moved(given)
    was_done, rolled_back = is_restored(log, given), 0
    if not was_done:
        _check_topics(analysis, manifest)
        _check_can_go_back(sinks, manifest)
        _check_begin_anew(sinks, manifest)
        generation = copy_restored(log, given)
        rolled_back = sinks.roll_back(savepoint.epoch)
        commit_restored(log, given, generation)
    return RestoredJob(
        savepoint=savepoint,
        steps=steps,
        outputs=outputs,
        new_outputs=tuple(name for name in sinks.by_name if name not in outputs),
        dropped_outputs=tuple(name for name in stored.output_names if name not in sinks.by_name),
        with_full_snapshot=plan.with_full_snapshot([operator.operator_id for operator in manifest.operators], outputs),
        files_rolled_back=rolled_back,
        not_rolled_back=tuple(name for name in sinks.not_rolled_back if name in stored.output_names),
        was_done=was_done,
    )


def _program(identity: JobIdentity, plan: JobPlan, sinks: Sinks, before: JobIdentity, stored: Manifest) -> Program:
    with_state = {operator.operator_id for operator in stored.operators}
    with_state |= {state.operator_id for state in stored.list_states}
    stateless = {stage.operator_id for stage in plan.stages if not stage.operator.states}
    return Program(
        identity=identity,
        stateless=stateless | (before.operators.keys() - with_state),
        can_emit_full_snapshot={stage.operator_id for stage in plan.stages if stage.can_emit_full_snapshot},
        new_outputs={name for name in plan.results if _is_new(sinks, name)},
        sources=plan.sources_read,
        has_clock=plan.uses_clock,
        readers=plan.entries,
        begins_anew={
            stage.operator_id: name
            for stage in plan.stages
            if stage.is_changelog and isinstance(stage.operator, CheckedUpsertOperator)
            for name, result in plan.results.items()
            if stage.operator_id in result.reads.stages and not sinks.by_name[name].cannot_report_published
            if _is_new(sinks, name)
        },
    )


def _decided(program: Program, savepoint: Savepoint, *, allow_dropped: bool) -> Restorable:
    decision = decide_restore(program, savepoint.job, allow_dropped=allow_dropped)
    match decision:
        case Restorable():
            return decision
        case Refused(reason):
            raise InvalidJobError(reason)
        case _:
            assert_never(decision)


def _is_new(sinks: Sinks, name: str) -> bool:
    """Return whether an output can start fresh: the console always can, a folder if nothing was written to it."""
    sink = sinks.by_name[name]
    return sink.cannot_report_published or sink.is_new()


def _going_on(sinks: Sinks, plan: JobPlan, stored: Manifest, steps: Restorable) -> tuple[str, ...]:
    """Return the outputs of the savepoint that the job continues.

    One that cannot tell whether it is new goes on, unless another output gets the rows of its step from the beginning.
    Raise InvalidJobError if a new output would lack the rows until now, as its step has readers that go on.
    """
    kept = {operator.operator_id for operator in stored.operators if operator.operator_id in steps.kept}
    unsure = {name for name, sink in sinks.by_name.items() if sink.cannot_report_published}
    found = {
        name
        for name in stored.output_names
        if name in sinks.by_name and name not in steps.changed_outputs and (name in unsure or not _is_new(sinks, name))
    }
    while others := {name for names in plan.half_new(kept, found).values() for name in names} & found & unsure:
        found -= others
    for step, names in plan.half_new(kept, found).items():
        msg = (
            f"output {next(name for name in names if name not in found)!r} is new, and step {step!r} has other "
            "readers that go on from the savepoint. The step cannot emit its whole table to the new one alone, so the "
            "new output would lack the rows until now. Nothing was restored. Give the output the place that the "
            "savepoint's job wrote to; or give all outputs of the step new places, if no other step reads it. "
            f"outputs={', '.join(names)}"
        )
        raise InvalidJobError(msg)
    return tuple(name for name in stored.output_names if name in found)


def _check_outputs(sinks: Sinks, plan: JobPlan, manifest: Manifest) -> None:
    """Raise InvalidJobError unless the folders of continued outputs hold the files that the job has written so far."""
    schemas = output_schemas(plan)
    for name in manifest.output_names:
        sinks.by_name[name].prepare(schemas[name].fields, schemas[name].key_columns, is_fresh=False)
    _check_published(
        sinks, manifest, [n for n in manifest.output_names if not sinks.by_name[n].cannot_report_published]
    )


def _check_topics(analysis: Analysis, manifest: Manifest) -> None:
    """Raise InvalidJobError if a topic was made anew since the savepoint. The next start tells what is tolerated."""
    plan = analysis.plan
    read = SourcesRead.of(analysis.sources, plan.sources_read, has_clock=plan.uses_clock)
    TopicIds(read, lambda _: None).check(manifest)


def _check_can_go_back(sinks: Sinks, manifest: Manifest) -> None:
    """Raise InvalidJobError if a continued output cannot be rolled back to the savepoint."""
    obstacle = sinks.obstacle(manifest)
    if obstacle is not None:
        raise InvalidJobError(obstacle)


def _check_begin_anew(sinks: Sinks, manifest: Manifest) -> None:
    """Raise InvalidJobError if an output starts fresh in a folder that would keep files of another run."""
    for name in sinks.by_name.keys() - set(manifest.output_names):
        oldest = sinks.by_name[name].oldest_published()
        if oldest is not None and oldest <= manifest.epoch:
            msg = (
                "an output begins anew, because it is not the one that the savepoint's job wrote to, and its folder "
                "holds the output of an earlier run; the two would be mixed. Nothing was restored. Give this output a "
                f"new path. folder={sinks.by_name[name].store.url}"
            )
            raise InvalidJobError(msg)


def _check_published(sinks: Sinks, manifest: Manifest, names: Collection[str]) -> None:
    """Raise InvalidJobError unless the published files of the savepoint's epoch are those that its manifest names."""
    for name in names:
        sink = sinks.by_name[name]
        files = [file for file in manifest.outputs if file.sink == name]
        problems = [problem for file in files if (problem := sink.problem(file, reads=True)) is not None]
        problems += [(path, "is not the savepoint's") for path in sink.published_otherwise(manifest.epoch, files)]
        if problems:
            path, why = problems[0]
            msg = (
                "an output folder holds the output of a job of this name, but not what it had written when the "
                "savepoint was taken, so later files in it may not be this job's, and are not rolled back. Set the "
                "path of the output that the savepoint's job wrote to, or a new one. "
                f"folder={sink.store.url}, file={path}, problem={why}, epoch={manifest.epoch}"
            )
            raise InvalidJobError(msg)
