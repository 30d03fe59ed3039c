"""The parallelism of each epoch: from the job file, or from a newer request.

An epoch reads the state of the previous epoch by key groups, so each epoch may have another number of subtasks. The
driver reads the requests before every epoch. Nothing restarts, and only the next epoch is slower.
"""

from collections.abc import Sequence
from typing import assert_never

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.rescale import (
    NOTHING,
    InForce,
    Outdated,
    RescaleRequest,
    Subtasks,
    amended,
    decide_parallelism,
)
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.config import JobSpec
from mixedmode.driver.events import Observer, Rescaled, RescaleIgnored, StepRescaled
from mixedmode.driver.rescale_requests import configured_subtasks
from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.job_plan import JobPlan

_BY_HAND = "asked for with `mixedmode rescale`"
_IN_BACKLOG = "the job is in backlog again"
_BACKLOG_OVER = "the backlog is over"
_BY_FILE = "the job file says so"
_UNREAD = "requests to rescale cannot be read, so the parallelism stays. They are read again before the next epoch."


class Rescaling:
    """Reads the requests before each epoch of a run, and decides on its parallelism."""

    def __init__(self, spec: JobSpec, log: CheckpointLog, observer: Observer) -> None:
        """Read the requests for the first time: they were made before this start."""
        self._configured = self._subtasks = configured_subtasks(spec)
        self._requests = RescaleLog(log.store)
        self._observer = observer
        self._seen: int | None = None
        self._unread = ""  # why the requests could not be read before the newest epoch
        self._was_backlog = False
        self.request: RescaleRequest | None = None  # the request in force
        self._look(is_made_meanwhile=False)

    def subtasks(self, *, is_initial_backlog: bool) -> Subtasks:
        """Return the numbers of subtasks of the next epoch. Without a new request, this costs one small listing.

        is_initial_backlog: the epoch is the backlog of a fresh job. It and its repeats use the job file's numbers.
        """
        if is_initial_backlog:
            return self._configured
        try:
            self._look(is_made_meanwhile=True)
        except RetryableError as error:
            self._tell_unread(str(error))
        else:
            self._unread = ""
        return self._subtasks

    def ask(self, parallelism: int, *, reason: str, now_ms: int) -> None:
        """Write a request of the autoscaler for all later epochs, unless a person has made a request meanwhile."""

        def make(newest: RescaleRequest | None) -> RescaleRequest | None:
            if newest is not None and newest.is_pinned:
                return None
            return amended(
                newest,
                configured=self._configured,
                asked=Subtasks(parallelism),
                created_ms=now_ms,
                is_automatic=True,
                reason=f"the autoscaler found: {reason}",
            )

        self._requests.add(make)

    def tell(
        self, epoch: Epoch, plan: JobPlan, settings: StageSettings, before: Manifest | None, *, is_backlog: bool
    ) -> None:
        """Tell the observer which steps have another number of subtasks than in the epoch `before`, and why.

        is_backlog: the epoch is backlog. A backlog may have its own parallelism, which requests do not change.
        """
        known = {} if before is None else _parallelism_in(before)
        changes = []
        for operator_id in [*(stage.operator_id for stage in plan.maps), *(stage.operator_id for stage in plan.stages)]:
            then, now = known.get(operator_id), settings.parallelism_of(operator_id)
            changes += [StepRescaled(operator_id, then, now)] if then is not None and then != now else []
        if changes:
            reason = _IN_BACKLOG if is_backlog and not self._was_backlog else self._reason()
            self._observer(Rescaled(epoch, tuple(changes), reason))
        self._was_backlog = is_backlog

    def _reason(self) -> str:
        """Return why the numbers of subtasks changed since the previous epoch."""
        if self.request is None or self.request.wanted == NOTHING:
            return _BACKLOG_OVER if self._was_backlog else _BY_FILE
        return self.request.reason if self.request.is_automatic else _BY_HAND

    def _look(self, *, is_made_meanwhile: bool) -> None:
        numbers = self._requests.numbers()
        newest = numbers[-1] if numbers else None
        if newest == self._seen:
            return
        request = self._read(numbers)
        self._seen = newest  # only now: a failed read is repeated before the next epoch
        decision = decide_parallelism(self._configured, request, is_made_meanwhile=is_made_meanwhile)
        match decision:
            case InForce(subtasks):
                self.request = request
                self._subtasks = subtasks
                if request is not None and len(numbers) > 1:
                    self._requests.drop(up_to=request.number - 1)
            case Outdated(subtasks, reason):
                assert request is not None
                self.request = None
                self._subtasks = subtasks
                self._observer(RescaleIgnored(reason))
                self._requests.drop(up_to=request.number)
                self._seen = max((number for number in numbers if number > request.number), default=None)
            case _:
                assert_never(decision)

    def _tell_unread(self, error: str) -> None:
        """Tell that the store does not answer, once for each error."""
        if error != self._unread:
            self._unread = error
            self._observer(RescaleIgnored(f"{_UNREAD} {error}"))

    def _read(self, numbers: Sequence[int]) -> RescaleRequest | None:
        """Return the newest readable request. The request in force is kept until a newer one can be read."""
        for number in reversed(numbers):
            try:
                request = self._requests.get(number)
            except CorruptStateError as error:
                self._observer(RescaleIgnored(str(error)))
                continue
            if request is not None:
                return request
        return None


def _parallelism_in(manifest: Manifest) -> dict[str, int]:
    """Return {operator id: number of subtasks} of the steps that have state in the manifest."""
    known = {one.operator_id: one.parallelism for one in manifest.operators}
    return known | {one.operator_id: len(one.lists) for one in manifest.list_states}
