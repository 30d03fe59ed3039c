"""`mixedmode run JOB --from TIME --to TIME`: computes the windows of a range of event time again, and replaces them.

The windows are computed in batch mode, from what the sources have now, in a folder of their own. Then the rows of these
windows in the job's output are replaced at once (`Sink.replace_windows`). The job may run meanwhile: the windows are
closed in all of its checkpoints, so it neither changes their rows nor goes back to a time before them.

    closed windows only -> batch run over the records of the range -> one replacement in the output

No checkpoint changes. A backfill that is killed has replaced all rows or none, and can be repeated.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.checkpoint.decide import Damaged, Refused, decide_start
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Generation, JobIdentity, Manifest
from mixedmode.config import JobSpec, KeyedAggregateStep
from mixedmode.config.calls import quoted
from mixedmode.config.document import path_text
from mixedmode.config.graph import PREVIOUS
from mixedmode.config.instants import parse_instant
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.driver.run import RunOptions, open_sinks, output_schemas, run_job
from mixedmode.driver.scratch import document_in_scratch, output_folder, without
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.plan.backfill import BackfillStep, around, closed_until_us, replaceable_step
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.sinks import Sink
from mixedmode.sinks.table import read_output
from mixedmode.spark.session import open_session
from mixedmode.time import shown_time
from mixedmode.time.window_range import WindowRange

__all__ = ["Backfilled", "backfill", "backfill_range", "backfill_spec", "refusal"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: the name of the sql step that limits the records to the range
_LIMITED = "records_of_the_range"


@dataclass(frozen=True, slots=True)
class Backfilled:
    """The result of a backfill: the range, the rows that its windows have now, and the output."""

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


def backfill(spec: JobSpec, where: Where, windows: WindowRange, options: RunOptions) -> Backfilled:
    """Compute the windows of a range again, and replace their rows in the job's output.

    Raise InvalidJobError, with the reason, if that cannot be done exactly, and the errors of a run. Then nothing was
    replaced. options: those of the batch run.
    """
    reason = refusal(spec, windows)
    if reason is not None:
        raise _refused(spec, reason)
    session = options.session or open_session(spec)
    options = replace(options, session=session)
    plan = options.engine(session).analyse(spec, where).plan
    step = replaceable_step(plan)
    if isinstance(step, str):
        raise _refused(spec, step)
    folder = spec.execution.checkpointing.dir
    assert folder is not None, spec.name
    ((name, output),) = spec.results.items()
    log = CheckpointLog(ObjectStore(folder))
    oldest = _oldest_checkpoint(log, spec, plan)
    _check_closed(spec, step, windows, oldest)
    _check_published(_check_output(session, spec, plan, log), name, oldest)
    with temporary_folder("backfill-") as scratch:
        # the file of the job has other numbers of steps
        run_job(backfill_spec(spec, step, windows, scratch), lambda *path: path_text(path), options)
        rows = read_output(output_folder(scratch, name))
    rows = rows.filter(windows.has(rows))
    # the job may have dropped older checkpoints meanwhile, so more of its output may be rewritten
    before = _oldest_checkpoint(log, spec, plan).epoch
    _check_output(session, spec, plan, log).replace_windows(rows, windows, before)
    return Backfilled(windows, rows.num_rows, output.place)


def refusal(spec: JobSpec, windows: WindowRange) -> str | None:
    """Return why the rows of a range cannot be replaced, as far as the job file says it; None if they can."""
    if spec.execution.checkpointing.dir is None:
        return "it keeps no checkpoints, and each run of it replaces its whole output: run it again"
    if len(spec.results) > 1:
        return "it has several outputs, and only those of one can be replaced at once"
    for source in spec.sources.values():
        why = source.cannot_read_again(windows.bounds[1])
        if why is not None:
            return f"a source cannot be read again completely: {why}. source={source.place}"
    return None


def backfill_spec(spec: JobSpec, step: BackfillStep, windows: WindowRange, scratch: Path) -> JobSpec:
    """Return the job in batch mode over the records of a range, with all of its outputs in `scratch`.

    A sql step before the windows keeps the records whose event time, as the windows see it, is in the range.
    """
    document = document_in_scratch(spec, scratch)
    start, end = windows.sql_bounds
    column, steps = quoted(step.event_time), document["steps"]
    at = next(
        number
        for number, one in enumerate(spec.steps)
        if isinstance(one, KeyedAggregateStep) and one.window is not None
    )
    given = list(spec.steps[at].from_)
    read = given[0] if given else PREVIOUS if at else next(iter(spec.sources))
    text = f"SELECT * FROM {quoted(read)} WHERE {column} >= {start} AND {column} < {end}"  # noqa: S608 - quoted names
    limited: dict[str, Any] = {"name": _LIMITED, "sql": text, **({"from": given} if given and at else {})}
    document["steps"] = [*steps[:at], limited, {**without(steps[at], "from")}, *steps[at + 1 :]]
    backlog = without(document["execution"].get("backlog", {}), "emit")
    document["execution"] |= {"runtime-mode": "batch", **({"backlog": backlog} if backlog else {})}
    return job_spec_from_mapping(document)


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


def _check_closed(spec: JobSpec, step: BackfillStep, windows: WindowRange, oldest: Manifest) -> None:
    whole = around(step.operator.windows, windows)
    if whole != windows:
        raise _refused(
            spec,
            "the range does not begin where a window begins, or does not end where one ends, so windows would be "
            f"replaced by parts of them. Choose bounds of windows, such as the nearest ones around it: {whole}. "
            f"range={windows}",
        )
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


def _check_output(session: SparkSession, spec: JobSpec, plan: JobPlan, log: CheckpointLog) -> Sink:
    """Return the sink of the job, prepared without taking it over. Raise InvalidJobError if it cannot replace rows."""
    ((name, output),) = spec.results.items()
    sink = open_sinks(session, spec, plan, log.store.url, Generation(0)).by_name[name]
    why = sink.no_replacement()
    if why is not None:
        raise _refused(spec, f"its output cannot: {why}. sink={output.place}")
    schema = output_schemas(plan)[name]
    sink.prepare(schema.fields, schema.key_columns, is_fresh=False)
    return sink


def _refused(spec: JobSpec, reason: str) -> InvalidJobError:
    return InvalidJobError(
        f"a range of this job cannot be computed again on its own: {reason.removesuffix('.')}. Nothing was replaced. "
        "To process a corrected history, start the job again with `mixedmode reset JOB --to earliest`, or --to TIME. "
        f"name={spec.name}"
    )
