"""The observers of a run: each gets every event in order, and an error of one is nobody else's."""

import logging
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.driver.events import EpochCommitted, Event, Notice, Observer, PhaseBegan
from mixedmode.driver.observers import Observers
from mixedmode.job import Job, Sink, Source
from tests.harness import Recording, output_rows, write_parquet
from tests.local_engine import run_locally

EVENTS: tuple[Event, ...] = (PhaseBegan("starting"), Notice("no files"), PhaseBegan("ended"))


def broken(event: Event) -> None:
    msg = f"no {event}"
    raise ValueError(msg)


def test_every_observer_gets_every_event_in_order_and_nobody_has_to_observe() -> None:
    first: list[Event] = []
    second: list[Event] = []
    observers = Observers([first.append, second.append])
    nobody = Observers([])
    for event in EVENTS:
        observers(event)
        nobody(event)
    assert first == second == list(EVENTS)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_observer_that_raises_is_logged_once_and_the_others_get_every_event(
    position: int, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Event] = []
    all_of_them: list[Observer] = [told.append, told.append]
    all_of_them.insert(position, broken)
    observers = Observers(all_of_them)
    for event in EVENTS:
        observers(event)
    assert told == [event for event in EVENTS for _ in range(2)]
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "mixedmode.driver.observers")
    assert record.getMessage() == (
        "an observer of the run raised an error; the job goes on, and later errors of this observer are not logged. "
        "observer=broken, event=PhaseBegan"
    )
    assert record.exc_info is not None, "with its traceback"
    assert repr(record.exc_info[1]) == repr(ValueError("no PhaseBegan(phase='starting')"))


def test_two_broken_observers_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers([broken, broken])
    for event in EVENTS:
        observers(event)
    assert len(caplog.records) == 2


def test_what_is_no_exception_ends_the_run() -> None:
    def stop(_event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Observers([stop])(EVENTS[0])


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_ends_a_job_in_any_epoch_and_the_next_start_goes_on(
    error: type[BaseException], epoch: int, tmp_path: Path
) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    source = Source.parquet(inputs, schema="k string, v bigint")
    job = Job("counts", sources={"t": source}, mode="mixed", parallelism=1, checkpoint_dir=tmp_path / "c")
    job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))

    def arrive(name: str) -> None:
        write_parquet(inputs, name, pa.table({"k": ["a"], "v": [1]}))

    def end(event: EpochCommitted) -> None:
        if event.epoch == epoch:
            raise error

    for number in range(epoch):
        arrive(f"{number}.parquet")
        run_locally(job, inputs)
    arrive("more.parquet")
    with pytest.raises(error):
        run_locally(job, inputs, observer=Recording(on_commit=end))
    arrive("last.parquet")
    run_locally(job, inputs)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": epoch + 2}]


def test_events_of_several_threads_come_one_at_a_time() -> None:
    inside = threading.Lock()
    told: list[bool] = []

    def alone(_event: Event) -> None:
        is_alone = inside.acquire(blocking=False)
        told.append(is_alone)
        if is_alone:
            inside.release()

    observers = Observers([alone])
    start = threading.Barrier(4)

    def tell() -> None:
        start.wait()
        for _ in range(500):
            observers(EVENTS[0])

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True] * 2_000
