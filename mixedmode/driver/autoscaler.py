"""The autoscaler: measures live epochs, and asks for another parallelism when `decide_scale` says so.

The one idea: it asks in the way in which a person does, by a request in the checkpoint folder. So the screen and the
manifests show what it does, a restart goes on with it, and what a person has asked for is found in the same place.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.clock import Clock
from mixedmode.config import JobSpec
from mixedmode.driver.rescaling import Rescaling
from mixedmode.driver.scaling import EpochLoad, Load, Scale, ScaleTargets, decide_scale, lag_seconds
from mixedmode.errors import RetryableError

_KEPT = 20  # epochs; decide_scale looks at fewer


@dataclass(frozen=True, slots=True)
class _Ran:
    """The epoch that ran last: its manifest, when it began and ended, and when the one before it began."""

    manifest: Manifest
    began: float
    ended: float
    arriving_since: float | None


class Autoscaler:
    """Watches live epochs, and asks for another parallelism when `decide_scale` says so."""

    def __init__(
        self,
        targets: ScaleTargets,
        interval_ms: int,
        rescaling: Rescaling,
        clock: Clock,
        trigger_seconds: Callable[[Epoch], float | None],
    ) -> None:
        """trigger_seconds: how long Spark took for an epoch that is over, all of its own work included, if it says so.

        Where epochs are short, that work is a good part of them, and it is not seen from within an epoch.
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
        """Decide by the live epochs so far, and run the next.  run: gives its manifest, None if it was no new one."""
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
        lag = lag_seconds(seconds, self._seconds_before, self._interval_seconds)
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
            since_change_ms=None if request is None else now_ms - request.created_ms,
            is_pinned=request is not None and request.is_pinned,
        )
        decision = decide_scale(load, self._targets)
        if isinstance(decision, Scale):
            with suppress(RetryableError):  # it is decided anew after the next epoch
                self._rescaling.ask(decision.to, reason=decision.reason, now_ms=now_ms)


def scale_targets(spec: JobSpec, cores: int) -> ScaleTargets | None:
    """The autoscaler's settings, with bounds that are known; None if it is off."""
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
