"""The autoscaler over a job that is simulated: what it measures, what it asks for, and what it leaves to people."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from mixedmode.checkpoint.types import Epoch, JobIdentity, Manifest, OperatorState
from mixedmode.driver.autoscaler import Autoscaler, scale_targets
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.rescaling import Rescaling
from mixedmode.job import Job, Sink, Source
from mixedmode.job.arguments import AutoscalerArguments
from tests.checkpoint.examples import a_manifest
from tests.harness import HandClock, Recording, checkpoint_log

INTERVAL_SECONDS = 1.0


@dataclass
class Simulated:
    """A live job with `work` seconds of one subtask in each second of input, shared out among its subtasks."""

    folder: Path
    work: float
    settings: AutoscalerArguments = field(default_factory=AutoscalerArguments)

    #: how long Spark took for the last epoch; None: it does not say
    spark_says: float | None = None

    def __post_init__(self) -> None:
        self.clock, self.observer = HandClock(), Recording()
        self.log = checkpoint_log(self.folder)
        self.log.create_identity(JobIdentity("j", 128, {}))
        self.start()

    def start(self) -> None:
        spec = self.job.spec
        targets = scale_targets(spec, cores=6)
        assert targets is not None
        self.rescaling = Rescaling(spec, self.log, self.observer)
        interval_ms = int(1000 * INTERVAL_SECONDS)
        self.autoscaler = Autoscaler(targets, interval_ms, self.rescaling, self.clock, lambda _epoch: self.spark_says)

    @property
    def job(self) -> Job:
        settings: AutoscalerArguments = {"cool_down": "30s", **self.settings}
        sources = {"s": Source.parquet("/s")}
        job = Job("j", sources=sources, mode="mixed", checkpoint_dir=self.folder, parallelism=1, autoscaler=settings)
        return job.key_by("a").aggregate(n="count(*)").write(Sink.console())

    def ask(self, parallelism: int | None, *, step: str | None = None) -> None:
        """As a person does."""
        ask_to_rescale(self.job.spec, parallelism, step=step, clock=self.clock)

    def epochs(self, count: int) -> list[int]:
        """The subtasks of the next epochs, one in each interval or one right after the other."""
        numbers: list[int] = []
        for _ in range(count):
            began = self.clock.at
            self.autoscaler.watch(lambda: self._epoch(numbers))
            self.clock.at = max(self.clock.at, began + INTERVAL_SECONDS)
        return numbers

    def _epoch(self, numbers: list[int]) -> Manifest:
        parallelism = self.rescaling.subtasks(is_initial_backlog=False).job or 1
        numbers.append(parallelism)
        self.clock.at += self.work / parallelism
        step = OperatorState("aggregate-1", {}, (), parallelism)
        return replace(a_manifest(1), epoch=Epoch(1), parallelism=parallelism, operators=(step,))


def test_a_job_that_is_too_busy_gets_more_subtasks_and_fewer_when_it_is_not(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=2.0)
    assert job.epochs(40) == [1] * 5 + [2] * 30 + [3] * 5, "2 subtasks have no time to spare; it waits to cool down"
    request = job.rescaling.request
    assert request is not None
    assert (request.is_automatic, request.reason) == (True, "the autoscaler found: busy 100% of the time, target 70%")
    job.work = 0.3
    assert job.epochs(60)[-1] == 1


def test_the_bounds_are_the_settings_or_the_cores(tmp_path: Path) -> None:
    assert Simulated(tmp_path / "cores", work=100.0).epochs(300)[-1] == 6
    assert Simulated(tmp_path / "settings", work=100.0, settings={"max_parallelism": 3}).epochs(300)[-1] == 3


def test_what_it_asked_for_counts_over_a_restart_and_it_goes_on_cooling_down(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    assert job.epochs(6) == [1] * 5 + [2]
    job.start()
    numbers = job.epochs(12)
    assert numbers == [2] * 9 + [3] * 3, "30 s after the change, of which an epoch takes 3"


def test_it_goes_on_after_a_change_whose_time_is_ahead_of_the_clock(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    assert job.epochs(6) == [1] * 5 + [2]
    job.clock.at -= 86_400.0
    job.start()
    assert job.epochs(12)[-1] == 3


def test_what_a_person_asked_for_is_left_alone_until_it_is_withdrawn(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    job.ask(1)
    assert set(job.epochs(30)) == {1}
    job.ask(None)
    assert job.epochs(30)[-1] > 1


def test_a_step_that_a_person_rescaled_keeps_its_number_while_the_others_are_scaled(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    job.ask(5, step="aggregate-1")
    assert job.epochs(10)[-1] == 2
    assert job.rescaling.subtasks(is_initial_backlog=False).steps == {"aggregate-1": 5}


def test_an_epoch_that_is_no_new_one_is_not_measured(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    for _ in range(20):
        job.autoscaler.watch(lambda: None)
    assert job.rescaling.request is None


def test_what_spark_does_around_an_epoch_counts_as_work(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=0.5)
    assert set(job.epochs(20)) == {1}
    job.spark_says = 0.9
    assert job.epochs(6)[-1] == 2


def test_a_request_that_comes_while_it_decides_is_not_overridden(tmp_path: Path) -> None:
    job = Simulated(tmp_path, work=6.0)
    job.epochs(5)
    job.ask(4)
    assert set(job.epochs(30)) == {4}
    job.ask(5)
    job.rescaling.ask(2, reason="busy", now_ms=job.clock.now_ms())
    assert set(job.epochs(2)) == {5}
