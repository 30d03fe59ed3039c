"""The main job on a real cluster: workers and executors are killed under it, attempts run twice, and tasks fail.

A test says where a task is to wait (mixedmode/crash_points.py), sees on which machine it does, and acts there.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from mixedmode.crash_points import FAIL_TASKS, HOLD_TASKS, CrashPoint
from tests.faults.cluster import SETTINGS, Cluster, cluster
from tests.faults.jobs import TWO_STEPS, FaultJob
from tests.faults.processes import Driver, finished, running, wait_until
from tests.harness import manifests

pytestmark = [pytest.mark.spark, pytest.mark.faults]

HOSTS = ("127.0.0.1", "127.0.0.2")


@pytest.fixture(scope="module")
def two_workers(scratch_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running_cluster:
        yield running_cluster


class ClusterJob(FaultJob):
    """The job of all faults on a cluster, and where its tasks wait."""

    @property
    def holds(self) -> Path:
        return self.folder / "holds"

    def move_to(self, master: str, **settings: str) -> None:
        self.holds.mkdir(exist_ok=True)
        job = yaml.safe_load(self.file.read_text())
        job["spark"] = {"master": master, **settings}
        self.file.write_text(yaml.safe_dump(job, sort_keys=False))

    def take_one_file_at_a_time(self) -> None:
        job = yaml.safe_load(self.file.read_text())
        job["execution"] |= {"runtime-mode": "streaming", "interval-during-backlog": "1s"}
        job["sources"]["sales"]["max-files-per-epoch"] = 1
        self.file.write_text(yaml.safe_dump(job, sort_keys=False))

    def hold(self, point: CrashPoint, epoch: int, step: str, attempt: str = "") -> Path:
        """Have tasks wait there, until the file is removed. `attempt`: <subtask>-<attempt>, for that one alone."""
        file = self.holds / "-".join(filter(None, (f"{point}@{epoch}", step, attempt)))
        file.touch()
        return file

    def held(self, file: Path) -> dict[str, int]:
        """The attempts that wait: {<subtask>-<attempt>: process id}."""
        found = self.holds.glob(f"held-{file.name}*")
        return {"-".join(path.name.split("-")[-2:]): int(text) for path in found if (text := path.read_text())}

    @contextmanager
    def driven(self, *arguments: str) -> Iterator[Driver]:
        """The job in a process of its own."""
        with running("run", self.file, *arguments, environment=self.environment()) as driver:
            yield driver

    def environment(self) -> Mapping[str, str]:
        return {HOLD_TASKS: str(self.holds), "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> ClusterJob:
    return ClusterJob(tmp_path / "a folder", file_format="parquet")


@pytest.fixture
def two_steps(scratch_folder: Path, tmp_path: Path) -> ClusterJob:
    return ClusterJob(tmp_path / "a folder", TWO_STEPS)


@pytest.mark.parametrize("also_in_live", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_worker_is_killed_in_the_backlog_and_another_one_in_live(
    two_workers: Cluster, job: ClusterJob, also_in_live: bool
) -> None:
    job.move_to(two_workers.master, **SETTINGS)
    job.add("history", 3_000)
    in_backlog = job.hold("sort", 0, "aggregate-1")
    with job.driven() as driver:
        wait_until(lambda: len(job.held(in_backlog)) == 2, "both subtasks of the backlog wait")
        hosts = {attempt: two_workers.host_of(process) for attempt, process in job.held(in_backlog).items()}
        assert sorted(hosts.values()) == sorted(HOSTS)
        two_workers.kill_worker(hosts["0-0"])
        in_backlog.unlink()
        two_workers.start_worker(hosts["0-0"])
        wait_until(lambda: len(manifests(job.checkpoints)) == 1, "the backlog is committed")
        two_workers.wait_for_workers()
        if also_in_live:
            in_live = job.hold("sort", 1, "aggregate-1")
            job.add("live", 500)
            wait_until(lambda: len(job.held(in_live)) == 2, "both subtasks of the live epoch wait")
            two_workers.kill_worker(two_workers.host_of(job.held(in_live)["1-0"]))
            in_live.unlink()
            wait_until(lambda: len(manifests(job.checkpoints)) == 2, "the live epoch is committed")
        job.add("later", 500)
        wait_until(lambda: len(manifests(job.checkpoints)) == 2 + also_in_live, "the one after it, too")
        driver.send(signal.SIGTERM)
        code, output, errors = driver.wait()
    assert code == 0, output + errors
    for host in HOSTS:
        if host not in two_workers.workers:
            two_workers.start_worker(host)
    two_workers.wait_for_workers()
    assert [m.is_backlog for m in manifests(job.checkpoints)] == [True, *[False] * (1 + also_in_live)]
    job.check()


@pytest.mark.soak
def test_an_executor_is_killed_between_the_steps(two_workers: Cluster, two_steps: ClusterJob) -> None:
    job = two_steps
    job.move_to(two_workers.master, **SETTINGS)
    job.add("history", 3_000)
    waiting = job.hold("sort", 0, "aggregate-2")
    with job.driven("--until-idle") as driver:
        wait_until(lambda: len(job.held(waiting)) == 2, "both subtasks of the second step wait")
        two_workers.kill_executor_of(job.held(waiting)["0-0"])
        waiting.unlink()
        code, output, errors = driver.wait()
    assert code == 0, output + errors
    job.check()


@pytest.mark.soak
def test_a_slow_attempt_and_its_speculative_duplicate_count_once(two_workers: Cluster, job: ClusterJob) -> None:
    speculation = {
        "speculation": "true",
        "speculation.interval": "100ms",
        "speculation.quantile": "0.5",
        "speculation.minTaskRuntime": "5s",  # by then the first attempt has come to where it is held
    }
    job.move_to(two_workers.master, **SETTINGS, **speculation)
    job.add("history", 3_000)
    slow = job.hold("runs-stored", 0, "aggregate-1", "1-0")
    with job.driven("--until-idle") as driver:
        code, output, errors = driver.wait()
    assert code == 0, output + errors
    assert list(job.held(slow)) == ["1-0"], "the first attempt had stored everything when the second one overtook it"
    job.check()


@pytest.mark.soak
def test_tasks_that_fail_at_random_change_nothing(two_steps: ClusterJob) -> None:
    """Each attempt fails at each of its points with 10 %, so about every third one; Spark has eight for a task."""
    job = two_steps
    job.move_to("local[2,8]", **{"driver.memory": "1g"})
    job.take_one_file_at_a_time()
    for epoch in range(5):
        job.add(f"part {epoch}", 500)
    environment = {**job.environment(), FAIL_TASKS: "0.1:7"}
    code, output, errors = finished("run", job.file, "--until-idle", environment=environment)
    assert code == 0, output + errors
    assert len(manifests(job.checkpoints)) == 5
    log = (job.checkpoints / "logs/spark.log").read_text()
    assert log.count("MIXEDMODE_FAIL_TASKS wants this attempt to fail") >= 3
    job.check()
