"""Bytes for Arrow's readers."""

import sys

from mixedmode.sinks.arrow_memory import reader_of


def test_a_reader_has_the_bytes_and_does_not_hold_those_of_python() -> None:
    data = bytes(range(256)) * 400
    held = sys.getrefcount(data)
    reader = reader_of(data)
    assert sys.getrefcount(data) == held
    assert reader.read() == data
