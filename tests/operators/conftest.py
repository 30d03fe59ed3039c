"""State for the tests of operators, in both of its kinds."""

from collections.abc import Callable

import pytest

from tests.operators.epochs import MemoryState, RunState, State


@pytest.fixture(scope="session", params=["memory", "runs"])
def new_state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], State]:
    """Makes an empty state: the in-memory twin, or real runs and RocksDB."""
    if request.param == "memory":
        return MemoryState
    return lambda: RunState(tmp_path_factory.mktemp("state"))
