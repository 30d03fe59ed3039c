"""The observers of a run: each gets every event in order, and an error of one is nobody else's."""

import logging
import threading

import pytest

from mixedmode.driver.events import Event, Notice, Observer, PhaseBegan
from mixedmode.driver.observers import Observers

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
