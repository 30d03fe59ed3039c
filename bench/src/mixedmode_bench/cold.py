"""The time of new processes, from their start: `mixedmode bench cold`.

`mixedmode run JOB --until-idle` and a PySpark script that computes the same run in turns, each in a process of its own.

    trivial     counts a small file by key; until the process has ended
    count-sum   the workload of this name; until the job is live, and until the script has written its result

Before the rounds, the job runs with an empty cache: a first start on a machine, without an archive of Spark's classes.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml
from rich.table import Table

from mixedmode.cli.consoles import plain_table
from mixedmode.errors import RetryableError
from mixedmode.log import FORMAT_VARIABLE, LEVEL_VARIABLE
from mixedmode.sinks.table import current_table
from mixedmode_bench.contestants import find_workload
from mixedmode_bench.data import data_for
from mixedmode_bench.events import EVENTS
from mixedmode_bench.workload import Size, answers_in

WORKLOAD = "count-sum"
TRIVIAL_MAX, COUNT_SUM_MAX = 1.3, 0.5  # times the script
_TRIVIAL = Size(10_000, 100)
_JOB = {
    "name": "cold",
    "execution": {"runtime-mode": "mixed", "checkpointing": {"dir": "./checkpoints"}},
    "steps": [{"key-by": ["k"], "aggregate": {"n": "count(*)", "total": "sum(v)"}}],
    "sink": {"format": "parquet", "path": "./out"},
}
#: with the settings that are good for Spark: no user interface, and as many partitions as cores
_SCRIPT = """\
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

builder = SparkSession.builder.master("local[{cores}]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", {cores}).config("spark.driver.memory", "2g").getOrCreate()
events = spark.read.schema("k long, v double").parquet({events!r})
events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total")).write.parquet("out")
print("{mark}", flush=True)
spark.stop()
"""
#: With the first two, `run` has log lines instead of a display. With the last, each process compiles what it imports.
_NOT_PASSED_ON = {FORMAT_VARIABLE, LEVEL_VARIABLE, "PYTHONDONTWRITEBYTECODE"}
_MARK = "flip"  # the first word of the line of mixedmode that says so


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of a process: to its result, and to its end."""

    result_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Pair:
    """The starts of a job and of its script, of the same rounds. `first`: of the job, with an empty cache."""

    name: str
    job: Sequence[Start]
    script: Sequence[Start]
    first: Start
    at_most: float
    to_end: bool

    def seconds(self, start: Start) -> float:
        """Return the seconds that count."""
        return start.end_s if self.to_end else start.result_s

    @property
    def ratios(self) -> list[float]:
        """Return the time of the job as a multiple of the script's, in each round."""
        return [self.seconds(job) / self.seconds(script) for job, script in zip(self.job, self.script, strict=True)]


def measure_cold(size: Size, root: Path, rounds: int, cores: int, say: Callable[[str], None]) -> list[Pair]:
    """Return the starts of both jobs.  size: of count-sum. Raise RetryableError if one fails or counts wrongly."""
    pairs = []
    for name, of_job, at_most in (("trivial", _TRIVIAL, TRIVIAL_MAX), (WORKLOAD, size, COUNT_SUM_MAX)):
        events = data_for(find_workload(WORKLOAD), of_job, root).tables / EVENTS
        with TemporaryDirectory(prefix="mixedmode-cold-") as folder:
            place = _Place(Path(folder), events, of_job, cores)
            first = place.job(cache=Path(folder) / "cache")
            place.job()  # leaves an archive of classes in the user's cache, if there was none
            found = [(place.job(), place.script()) for _ in range(rounds)]
        jobs, scripts = zip(*found, strict=True)
        pairs.append(Pair(name, jobs, scripts, first, at_most, to_end=name == "trivial"))
        say(f"  {name:10} {median(pairs[-1].ratios):5.2f} times the script")
    return pairs


def cold_table(pairs: Sequence[Pair]) -> Table:
    """Return the medians of all starts."""
    numbers = ("result s", "end s")
    table = plain_table(("", *numbers), numbers=numbers)
    for pair in pairs:
        for what, starts in ((pair.name, pair.job), ("  first", [pair.first]), ("  PySpark script", pair.script)):
            values = ([start.result_s, start.end_s] for start in starts)
            table.add_row(what, *(f"{median(column):.2f}" for column in zip(*values, strict=True)))
    return table


def cold_verdicts(pairs: Sequence[Pair]) -> list[str]:
    """Return a line for each target."""
    lines = []
    for pair in pairs:
        middle, span = median(pair.ratios), f"{min(pair.ratios):.2f} .. {max(pair.ratios):.2f}"
        verdict = "met" if middle <= pair.at_most else "missed"
        what = f"{pair.name}, to its {'end' if pair.to_end else 'result'}, times the script"
        lines.append(f"{what}: {middle:.2f} ({span}), target at most {pair.at_most}: {verdict}")
    return lines


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder, the data and the cores of the processes of one job."""

    folder: Path
    events: Path
    size: Size
    cores: int

    def job(self, *, cache: Path | None = None) -> Start:
        """Run the job from the beginning."""
        work = self._work()
        source = {"format": "parquet", "path": str(self.events), "schema": "k long, v double"}
        job = {**_JOB, "sources": {"events": source}, "spark": {"master": f"local[{self.cores}]"}}
        (work / "job.yaml").write_text(yaml.safe_dump(job))
        variables = {} if cache is None else {"MIXEDMODE_CACHE": str(cache)}
        start = timed([sys.executable, "-m", "mixedmode", "run", "job.yaml", "--until-idle"], work, variables)
        found = current_table(str(answers_in(work)))
        if found is None or found.rows.num_rows > self.size.keys:
            msg = f"the job has written something else than a row for each key. Report it. keys={self.size.keys}"
            raise RetryableError(msg)
        return start

    def script(self) -> Start:
        """Run the PySpark script."""
        work = self._work()
        (work / "script.py").write_text(_SCRIPT.format(cores=self.cores, events=str(self.events), mark=_MARK))
        return timed([sys.executable, "script.py"], work, {"PYSPARK_PYTHON": sys.executable})

    def _work(self) -> Path:
        work = self.folder / f"run-{sum(1 for _ in self.folder.iterdir())}"
        work.mkdir()
        return work


def timed(command: Sequence[str], work: Path, variables: dict[str, str]) -> Start:
    """Run a process to its end. The line that begins with _MARK says that its result is there."""
    variables = {**{name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}, **variables}
    began, result_s = time.perf_counter(), 0.0
    with (
        (work / "errors.txt").open("w+") as errors,
        subprocess.Popen(command, cwd=work, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_MARK):
                result_s = time.perf_counter() - began
        code = process.wait()
        end_s = time.perf_counter() - began
        if code != 0 or not result_s:
            errors.seek(0)
            msg = (
                "a process that is measured has failed. Run the command by itself to see why. "
                f"command={' '.join(command)}, exit_code={code}, errors={errors.read()[-1000:]}"
            )
            raise RetryableError(msg)
    return Start(result_s, end_s)
