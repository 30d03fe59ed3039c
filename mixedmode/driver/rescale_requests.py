"""Requests to rescale a running job: `mixedmode rescale`, `Job.rescale`.

A request is a small file in the checkpoint folder, and the driver reads it before its next epoch. So no connection to
the running process is needed, and a job that is not running finds the request at its next start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.rescale import NOTHING, RescaleRequest, Subtasks, amended
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import JobIdentity
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec, RuntimeMode, SqlStep
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import sql_id
from mixedmode.errors import CorruptStateError, InvalidJobError

_FRESH = (
    "the job has never been started with this checkpoint folder, so there is nothing to rescale. Set `parallelism` in "
    "the job file, or start the job first."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was written. `unaffected`: {operator id: subtasks} of steps with their own number, which stays."""

    request: RescaleRequest
    unaffected: dict[str, int]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        wanted = self.request.wanted
        if wanted == NOTHING:
            lines = ["withdrawn: the job has the parallelism that the job file says"]
        else:
            parts = [] if wanted.job is None else [str(wanted.job)]
            parts += [f"of step {step} {count}" for step, count in wanted.steps.items()]
            lines = [f"subtasks asked for: {', '.join(parts)}"]
        if self.unaffected:
            kept = ", ".join(f"{step} {count}" for step, count in self.unaffected.items())
            lines.append(f"steps with a number of their own keep it: {kept}")
        lines.append("It counts from the next live epoch on, or from the next start of the job if it does not run.")
        return lines


def configured_subtasks(spec: JobSpec) -> Subtasks:
    """Return the parallelism that the job file sets."""
    own = {operator_id: count for operator_id, count in spec.step_parallelism.items() if count is not None}
    return Subtasks(spec.parallelism, own)


def ask_to_rescale(
    spec: JobSpec, parallelism: int | None, *, step: str | None = None, clock: Clock | None = None
) -> Asked:
    """Request `parallelism` subtasks from the next epoch on: for `step`, or for every step without its own number.

    None withdraws all requests. Raise InvalidJobError, with the reason, if the job cannot be rescaled like this.
    """
    folder = spec.execution.checkpointing.dir
    if folder is None or spec.chosen_mode is RuntimeMode.BATCH:
        msg = (
            "a batch job cannot be rescaled while it runs: it is one epoch, and keeps nothing. Set `parallelism` in "
            f"the job file. name={spec.name}"
        )
        raise InvalidJobError(msg)
    log = CheckpointLog(ObjectStore(folder))
    stored = _checked_job(spec, log.read_identity(), folder)
    log.check_goes_on()
    _check_number(spec, _steps_with_subtasks(spec, stored), parallelism, step)
    configured, now_ms = configured_subtasks(spec), (clock or SystemClock()).now_ms()
    asked = Subtasks(parallelism) if step is None or parallelism is None else Subtasks(None, {step: parallelism})

    def make(newest: RescaleRequest | None) -> RescaleRequest:
        if parallelism is None:
            return RescaleRequest(0, NOTHING, configured, is_automatic=False, reason="", created_ms=now_ms)
        request = amended(newest, configured=configured, asked=asked, created_ms=now_ms)
        _check_lists(log, request.wanted.over(configured))
        return request

    request = RescaleLog(log.store).add(make)
    assert request is not None, "make always returns one"
    own = request.wanted.over(configured).steps if step is None and parallelism is not None else {}
    return Asked(request, dict(own))


def _checked_job(spec: JobSpec, stored: JobIdentity | None, folder: str) -> JobIdentity:
    if stored is None:
        msg = f"{_FRESH} folder={folder}"
        raise InvalidJobError(msg)
    if stored.name != spec.name:
        msg = (
            "the checkpoint folder is that of another job. Name the job file that it was started with. "
            f"name={spec.name}, stored={stored.name}, folder={folder}"
        )
        raise InvalidJobError(msg)
    if stored.max_parallelism != spec.pipeline.max_parallelism:
        msg = (
            "pipeline.max-parallelism is not the one that the job was started with, and fixes the key group of every "
            "key for the life of its state. Put it back. "
            f"found={spec.pipeline.max_parallelism}, stored={stored.max_parallelism}"
        )
        raise InvalidJobError(msg)
    return stored


def _steps_with_subtasks(spec: JobSpec, stored: JobIdentity) -> list[str]:
    """Return the ids of the steps that have subtasks. Only a start knows which states a sql step has."""
    of_sql = {sql_id(step, index) for index, step in enumerate(spec.steps) if isinstance(step, SqlStep)}
    keyed = [name for name in stored.operators if any(name == own or name.startswith(f"{own}-") for own in of_sql)]
    return [*(name for name in spec.step_parallelism if name not in of_sql), *keyed]


def _check_number(spec: JobSpec, known: Sequence[str], parallelism: int | None, step: str | None) -> None:
    """Raise InvalidJobError for a number that no step can have, and for a step that is not known."""
    if not known:
        msg = f"the job has no step with subtasks, so there is nothing to rescale: Spark runs its sql. name={spec.name}"
        raise InvalidJobError(msg)
    if step is not None and step not in known:
        msg = (
            f"there is no step of this name that has subtasks.{did_you_mean(step, known)} Steps: {', '.join(known)}. "
            f"found={step}"
        )
        raise InvalidJobError(msg)
    limit = spec.pipeline.max_parallelism
    if parallelism is None or 1 <= parallelism <= limit:
        return
    why = "more subtasks than key groups: some would never receive data" if parallelism > 0 else "no subtask at all"
    msg = (
        f"the job cannot be rescaled to {why}. Ask for 1 to {limit}, its max-parallelism, which is fixed for the life "
        f"of its state. found={parallelism}"
    )
    raise InvalidJobError(msg)


def _check_lists(log: CheckpointLog, asked: Subtasks) -> None:
    """Raise InvalidJobError for a step that cannot redistribute its lists; it would stop the job in the next epoch."""
    try:
        latest = log.latest()
    except CorruptStateError:
        return  # the next start handles the damage, and checks the lists too
    for state in () if latest is None else latest.list_states:
        now, wanted = len(state.lists), asked.steps.get(state.operator_id, asked.job)
        if state.redistribution is None and now and wanted is not None and wanted != now:
            msg = (
                f"step {state.operator_id!r} keeps a list per subtask, and its function does not say what becomes of "
                "the lists when their number changes, so some would be lost. Rescale the other steps by name, with "
                f"--step, or first ask for {now} subtasks of this one by name. found={wanted}"
            )
            raise InvalidJobError(msg)
