"""Fixtures of the benchmarks without Spark."""

from collections.abc import Iterator

import pyarrow as pa
import pytest


@pytest.fixture
def one_core() -> Iterator[None]:
    """Arrow on one thread, as in a Python worker of Spark, which shares the machine with its siblings."""
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    yield
    pa.set_cpu_count(before)
