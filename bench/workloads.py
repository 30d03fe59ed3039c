"""The workloads that the suites measure beyond `mixedmode bench`: its data, for a question of their own."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.function import OUTPUT_DDL, CountAndSum
from bench.scale import PARALLELISM
from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Mode, Size, Workload, answers_in
from mixedmode_bench.workloads import WORKLOADS

#: each key once: all that a backlog does is to write state
MIGRATION = replace(WORKLOADS["live"], name="migration", feed=None)


def rescaled(epochs: int, rescaling: Callable[[Job], None]) -> Workload:
    """A state with each key once, then live epochs of `size.events` events each. `rescaling` is given the job."""

    def job(data: Path, work: Path, mode: Mode) -> Job:
        source = Source.parquet(data / events.EVENTS)
        made = Job(
            "rescaled",
            sources={"events": source},
            mode=mode,
            parallelism=PARALLELISM,
            checkpoint_dir=work / "checkpoints",
        )
        made = made.key_by("k").aggregate(n="count(*)", total="sum(v)").write(Sink.parquet(answers_in(work)))
        rescaling(made)
        return made

    return replace(WORKLOADS["live"], name="rescaled", job=job, feed=partial(_equal_epochs, epochs))


def processed(epochs: int, epoch_events: int) -> Workload:
    """count-sum by a process function, which gives its values at each record; in the end, the last ones count."""

    def job(data: Path, work: Path, mode: Mode) -> Job:
        source = Source.parquet(data / events.EVENTS)
        made = Job("processed", sources={"events": source}, mode=mode, checkpoint_dir=work / "checkpoints")
        return made.key_by("k").process(CountAndSum, output=OUTPUT_DDL).write(Sink.parquet(answers_in(work)))

    def feed(folder: Path, size: Size) -> list[Path]:
        return _equal_epochs(epochs, folder, Size(epoch_events, size.keys))

    return replace(WORKLOADS["count-sum"], name="processed", job=job, feed=feed)


def live_windows(state_files: int, sizes: list[int]) -> Workload:
    """The windows workload: its first files are there, and what follows them comes in epochs of these sizes."""
    windows = WORKLOADS["windows"]

    def write(folder: Path, size: Size) -> None:
        windows.write(folder, size)
        for file in _files(folder)[state_files:]:
            file.unlink()

    def feed(folder: Path, size: Size) -> list[Path]:
        windows.write(folder, size)
        later = pa.concat_tables(pq.read_table(file) for file in _files(folder)[state_files:])
        cut, first = [], 0
        for number, rows in enumerate(sizes):
            cut.append(folder / f"feed-{number:04d}.parquet")
            pq.write_table(later.slice(first, rows), cut[-1])
            first += rows
        return cut

    return replace(windows, name="live-windows", write=write, feed=feed)


def _files(folder: Path) -> list[Path]:
    return sorted((folder / events.EVENTS).iterdir())


def _equal_epochs(epochs: int, folder: Path, size: Size) -> list[Path]:
    """Files of `size.events` events each; some hold the same ones."""
    found: list[Path] = []
    while len(found) < epochs:
        turn = folder / f"turn-{len(found)}"
        events.write_counts(turn, Size(size.events * events.FILES, size.keys))
        found += [file.rename(file.with_name(f"{turn.name}-{file.name}")) for file in _files(turn)]
    return found[:epochs]
