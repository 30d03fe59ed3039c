"""`mixedmode run JOB --from TIME --to TIME`: computes the windows of a range of event time again, and replaces them.

The windows are computed in batch mode, from what the sources have now, in a folder of their own. Then the rows of these
windows in each output are replaced at once (`Sink.replace_windows`). The job may run meanwhile: the windows are
closed in all of its checkpoints, so it neither changes their rows nor goes back to a time before them.

    closed windows only -> batch run over the records of the range -> one replacement in each output

No checkpoint changes. A backfill that is killed has replaced all rows of an output or none, and can be repeated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from mixedmode.checkpoint.decide import Damaged, Refused, decide_start
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Generation, JobIdentity, Manifest
from mixedmode.config import JobSpec
from mixedmode.config.document import path_text
from mixedmode.config.graph import MAIN
from mixedmode.config.instants import parse_instant
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.driver.run import RunOptions, open_sinks, output_schemas, run_job
from mixedmode.driver.scratch import document_in_scratch, output_folder, without
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.plan.backfill import BackfillStep, around, closed_until_us, replaceable_step, replaced_rows
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.sinks import Sink
from mixedmode.sinks.table import read_output
from mixedmode.spark.session import open_session
from mixedmode.time import shown_time
from mixedmode.time.window_range import ReplacedRows, WindowRange

__all__ = ["Backfilled", "backfill", "backfill_range", "backfill_spec", "refusal"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Backfilled:
    """The result of a backfill of an output: the range, the rows that its windows have now, and where it is."""

    windows: WindowRange
    rows: int
    place: str


def backfill_range(start: str, end: str) -> WindowRange:
    """Return the range of two times.  Raise InvalidJobError for texts that are none, or if it is empty."""
    bounds = [parse_instant(str(text)) for text in (start, end)]
    for name, text, found in zip(("the start", "the end"), (start, end), bounds, strict=True):
        if found is None:
            msg = (
                f"{name} of the range is no time with its offset from UTC and at most microseconds. Write it as "
                f"2026-11-24T08:00:00Z. found={text}"
            )
            raise InvalidJobError(msg)
    start_us, end_us = ((bound - _EPOCH) // timedelta(microseconds=1) for bound in bounds if bound is not None)
    if start_us >= end_us:
        msg = f"the range is empty: its end must be later than its start. start={start}, end={end}"
        raise InvalidJobError(msg)
    return WindowRange(start_us, end_us)


def backfill(
    spec: JobSpec, where: Where, windows: WindowRange, options: RunOptions, outputs: Collection[str] = ()
) -> Sequence[Backfilled]:
    """Compute the windows of a range again, and replace their rows in outputs of the job, one after the other.

    Raise InvalidJobError, with the reason, if that cannot be done exactly, and the errors of a run. Then nothing was
    replaced. options: those of the batch run. outputs: names of outputs of whole steps; (): all of them.
    """
    reason = refusal(spec, windows, outputs)
    if reason is not None:
        raise _refused(spec, reason)
    session = options.session or open_session(spec)
    options = replace(options, session=session)
    plan = options.engine(session).analyse(spec, where).plan
    steps = _steps(spec, plan, outputs)
    folder = spec.execution.checkpointing.dir
    assert folder is not None, spec.name
    log = CheckpointLog(ObjectStore(folder))
    oldest = _oldest_checkpoint(log, spec, plan)
    _check_closed(spec, steps.values(), windows, oldest)
    replaced = {name: replaced_rows(step, windows) for name, step in steps.items()}
    for name, sink in _checked_sinks(session, spec, plan, log, replaced).items():
        _check_published(sink, name, oldest)
    found = []
    with temporary_folder("backfill-") as scratch:
        # the file of the job has other numbers of steps
        run_job(backfill_spec(spec, scratch), lambda *path: path_text(path), replace(options, within=windows))
        # the job may have dropped older checkpoints meanwhile, so more of its output may be rewritten
        before = _oldest_checkpoint(log, spec, plan).epoch
        for name, sink in _checked_sinks(session, spec, plan, log, replaced).items():
            rows = read_output(output_folder(scratch, name))
            rows = rows.filter(replaced[name].has(rows))
            sink.replace_windows(rows, replaced[name], before)
            found.append(Backfilled(windows, rows.num_rows, spec.results[name].place))
    return found


def refusal(spec: JobSpec, windows: WindowRange, outputs: Collection[str] = ()) -> str | None:
    """Return why the rows of a range cannot be replaced, as far as the job file says it; None if they can."""
    if spec.execution.checkpointing.dir is None:
        return "it keeps no checkpoints, and each run of it replaces its whole output: run it again"
    unknown = [name for name in outputs if name not in spec.results]
    if unknown:
        known = ", ".join(name for name in spec.results if name != MAIN) or "none, as it has one sink"
        return f"it has no output of whole steps with this name. outputs={known}, found={', '.join(unknown)}"
    for source in spec.sources.values():
        why = source.cannot_read_again(windows.bounds[1])
        if why is not None:
            return f"a source cannot be read again completely: {why}. source={source.place}"
    return None


def backfill_spec(spec: JobSpec, scratch: Path) -> JobSpec:
    """Return the job in batch mode, with all of its outputs in `scratch`."""
    document = document_in_scratch(spec, scratch)
    backlog = without(document["execution"].get("backlog", {}), "emit")
    document["execution"] |= {"runtime-mode": "batch", **({"backlog": backlog} if backlog else {})}
    return job_spec_from_mapping(document)


def _steps(spec: JobSpec, plan: JobPlan, outputs: Collection[str]) -> dict[str, BackfillStep]:
    """Return {output: the step with its windows}. Raise InvalidJobError if the rows of one cannot be replaced."""
    found = dict[str, BackfillStep]()
    for name in outputs or spec.results:
        step = replaceable_step(plan, name)
        if isinstance(step, str):
            choose = "" if len(spec.results) == 1 else f". Choose others with --output. output={name}"
            raise _refused(spec, step + choose)
        found[name] = step
    return found


def _oldest_checkpoint(log: CheckpointLog, spec: JobSpec, plan: JobPlan) -> Manifest:
    """Return the oldest checkpoint. Raise an error if there is none, or if it is not of this job."""
    epochs = log.epochs()
    wanted = JobIdentity(spec.name, spec.pipeline.max_parallelism, plan.fingerprints)
    decision = decide_start(wanted, log.read_identity(), latest=epochs[-1] if epochs else None)
    match decision:
        case Refused(reason):
            raise InvalidJobError(reason)
        case Damaged(reason):
            raise CorruptStateError(reason)
        case _:
            found = next((manifest for epoch in epochs if (manifest := log.get(epoch)) is not None), None)
    if found is None:
        msg = f"this job has no checkpoint yet, so there is nothing to replace. Run it first. folder={log.store.url}"
        raise InvalidJobError(msg)
    return found


def _check_closed(spec: JobSpec, steps: Collection[BackfillStep], windows: WindowRange, oldest: Manifest) -> None:
    whole = around([step.operator.windows for step in steps], windows)
    if whole != windows:
        raise _refused(
            spec,
            "the range does not begin where a window begins, or does not end where one ends, so windows would be "
            f"replaced by parts of them. Choose bounds of windows, such as the nearest ones around it: {whole}. "
            f"range={windows}",
        )
    for step in steps:
        _check_step_closed(spec, step, windows, oldest)


def _check_step_closed(spec: JobSpec, step: BackfillStep, windows: WindowRange, oldest: Manifest) -> None:
    closed_us = closed_until_us(step, oldest)
    if closed_us is None or windows.end_us > closed_us:
        until = "none" if closed_us is None else shown_time(closed_us)
        raise _refused(
            spec,
            "windows of the range are open, or were still open in the oldest checkpoint, to which the job may go "
            "back. Choose an earlier --to, or let the job commit more epochs (execution.checkpointing.num-retained "
            f"says how many checkpoints are kept). closed_until={until}, oldest_checkpoint={oldest.epoch}, "
            f"range={windows}",
        )


def _check_published(sink: Sink, name: str, oldest: Manifest) -> None:
    """Raise RetryableError unless the rows of all closed windows are in the output.

    An epoch is published before the next one is committed, and its staged files are gone then. So only the files of the
    oldest checkpoint can be waiting, if it is the newest, too.
    """
    waiting = [file.staged_path for file in oldest.outputs if file.sink == name and sink.store.exists(file.staged_path)]
    if waiting:
        msg = (
            "rows of the newest epoch are committed and not yet published, and would come beside those of the "
            "backfill. If the job is stopped, start it: it publishes them first. Then do the same again. Nothing was "
            f"replaced. epoch={oldest.epoch}, file={sink.store.url}/{waiting[0]}"
        )
        raise RetryableError(msg)


def _checked_sinks(
    session: SparkSession, spec: JobSpec, plan: JobPlan, log: CheckpointLog, replaced: Mapping[str, ReplacedRows]
) -> dict[str, Sink]:
    """Return sinks, prepared without taking them over. Raise InvalidJobError if one cannot replace rows."""
    sinks, schemas = open_sinks(session, spec, plan, log.store.url, Generation(0)).by_name, output_schemas(plan)
    for name, rows in replaced.items():
        why = sinks[name].no_replacement(rows)
        if why is not None:
            raise _refused(spec, f"its output cannot: {why}. sink={spec.results[name].place}")
        sinks[name].prepare(schemas[name].fields, schemas[name].key_columns, is_fresh=False)
    return {name: sinks[name] for name in replaced}


def _refused(spec: JobSpec, reason: str) -> InvalidJobError:
    return InvalidJobError(
        f"a range of this job cannot be computed again on its own: {reason.removesuffix('.')}. Nothing was replaced. "
        "To process a corrected history, start the job again with `mixedmode reset JOB --to earliest`, or --to TIME. "
        f"name={spec.name}"
    )
