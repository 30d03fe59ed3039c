"""The autoscaler: measures live epochs, and requests another parallelism when `decide_scale` returns one.

The autoscaler makes the same request as a person: a request in the checkpoint folder. So the display and the manifests
show what it does, a restart keeps its choice, and requests of people are found in the same place.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.clock import Clock
from mixedmode.config import JobSpec
from mixedmode.driver.events import processing_lag_seconds
from mixedmode.driver.rescaling import Rescaling
from mixedmode.driver.scaling import EpochLoad, Load, Scale, ScaleTargets, decide_scale
from mixedmode.errors import RetryableError

_KEPT = 20  # epochs; decide_scale looks at fewer


@dataclass(frozen=True, slots=True)
class _Ran:
    """The epoch that ran last: its manifest, when it began and ended, and when the previous epoch began.

    All times are in seconds of the clock. `arriving_since` is None if the previous epoch was not measured.
    """

    manifest: Manifest
    began: float
    ended: float
    arriving_since: float | None


class Autoscaler:
    """Measures live epochs, and requests another parallelism when `decide_scale` returns one."""

    def __init__(
        self,
        targets: ScaleTargets,
        interval_ms: int,
        rescaling: Rescaling,
        clock: Clock,
        trigger_seconds: Callable[[Epoch], float | None],
    ) -> None:
        """trigger_seconds: returns how long Spark took for a finished epoch, its own work included; None if unknown.

        Spark's own work is a large part of a short epoch, and code inside the epoch cannot measure it.
        """
        self._targets = targets
        self._interval_seconds = interval_ms / 1000
        self._rescaling = rescaling
        self._clock = clock
        self._trigger_seconds = trigger_seconds
        self._parallelism: int | None = None
        self._epochs: list[EpochLoad] = []
        self._last: _Ran | None = None
        self._seconds_before = 0.0

    def watch(self, run: Callable[[], Manifest | None]) -> None:
        """Decide from the live epochs so far, then run the next one.  run: returns its manifest; None if not new."""
        began, last = self._clock.seconds(), self._last
        if last is not None:
            self._measure(last)
        manifest = run()
        if manifest is not None:
            self._last = _Ran(manifest, began, self._clock.seconds(), None if last is None else last.began)

    def _measure(self, ran: _Ran) -> None:
        manifest = ran.manifest
        if manifest.parallelism != self._parallelism:
            self._parallelism, self._epochs = manifest.parallelism, []
        seconds = self._trigger_seconds(manifest.epoch) or ran.ended - ran.began
        period = self._interval_seconds
        if ran.arriving_since is not None:
            period = max(period, ran.began - ran.arriving_since)
        lag = processing_lag_seconds(seconds, self._seconds_before, self._interval_seconds)
        self._epochs.append(EpochLoad(manifest.records_in, seconds, period, lag))
        del self._epochs[:-_KEPT]
        self._seconds_before, self._last = seconds, None
        self._decide(manifest.parallelism)

    def _decide(self, parallelism: int) -> None:
        now_ms, request = self._clock.now_ms(), self._rescaling.request
        load = Load(
            parallelism=parallelism,
            interval_seconds=self._interval_seconds,
            epochs=tuple(self._epochs),
            # a change that is further ahead than a cool-down was made by a clock that was set back since
            since_change_ms=None if request is None else abs(now_ms - request.created_ms),
            is_pinned=request is not None and request.is_pinned,
        )
        decision = decide_scale(load, self._targets)
        if isinstance(decision, Scale):
            with suppress(RetryableError):  # the next epoch decides again
                self._rescaling.ask(decision.to, reason=decision.reason, now_ms=now_ms)


def scale_targets(spec: JobSpec, cores: int) -> ScaleTargets | None:
    """Return the settings of the autoscaler, with both bounds filled in; None if it is off."""
    settings = spec.execution.autoscaler
    if not settings.enabled:
        return None
    most = settings.max_parallelism or max(settings.min_parallelism, min(cores, spec.pipeline.max_parallelism))
    return ScaleTargets(
        parallelism_min=settings.min_parallelism,
        parallelism_max=most,
        utilization=settings.target_utilization,
        lag_ms=settings.target_lag_ms,
        throughput=settings.target_throughput,
        cool_down_ms=settings.cool_down_ms,
    )
