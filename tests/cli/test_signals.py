"""The first signal asks for a stop, the second one ends the process; a pair of `timeout` is one request."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from mixedmode.cli.signals import ABORTED, stop_on_signals


@pytest.fixture(autouse=True)
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Exit codes of the process, which does not end."""
    found: list[int] = []
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(os, "_exit", found.append)
    yield found
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("second", "seconds", "codes"),
    [
        (signal.SIGTERM, 0.001, []),
        (signal.SIGTERM, 1.0, [ABORTED]),
        (signal.SIGINT, 0.001, [ABORTED]),
    ],
)
def test_a_second_signal_ends_the_process_unless_it_comes_with_the_first(
    exits: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    second: signal.Signals,
    seconds: float,
    codes: list[int],
) -> None:
    now = [5.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stop = stop_on_signals("stopping")
    assert not stop.is_set()
    signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()
    now[0] += seconds
    signal.raise_signal(second)
    assert exits == codes
    assert capsys.readouterr().err.startswith("\nstopping\n")


def test_signals_count_although_nobody_reads_standard_error(exits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    file = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", file)
    stop = stop_on_signals()
    signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()
    signal.raise_signal(signal.SIGINT)
    assert exits == [ABORTED]
    with pytest.raises(BrokenPipeError):
        file.close()
