"""Faults that strike the driver and the store in cases on the local executor."""

from collections.abc import Iterator

import pytest

from mixedmode.checkpoint import verify
from tests.walk.faults import Faults


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    """Faults at each step of I/O of all starts, in the order in which the program takes these steps."""
    installed = Faults()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "_THREADS", 1)
        installed.install(patch)
        yield installed
