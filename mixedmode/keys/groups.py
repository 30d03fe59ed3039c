"""Key groups: the fixed unit in which keyed state is owned, moved and restored.

A key belongs to one of `max_parallelism` groups for the life of the job; each subtask owns one
half-open range [start, end) of groups. Rescaling moves ranges; it never re-hashes a key.

Source: Flink, runtime/state/KeyGroupRangeAssignment.java.
Invariant (tests/keys/test_key_groups.py): the ranges of all subtasks are disjoint and cover [0, max_parallelism).
"""

from dataclasses import dataclass

from mixedmode.errors import InvalidJobError

MAX_PARALLELISM_LIMIT = 2**15  # groups; the id is stored as uint16 in every state key


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Half-open range of key-group ids, start <= id < end. Empty when start == end."""

    start: int
    end: int


def group_range(subtask_index: int, *, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Return the key groups owned by one subtask.  Requires 0 <= subtask_index < parallelism.

    Example: with parallelism=3 and max_parallelism=8 the ranges are [0, 3), [3, 6) and [6, 8).

    Raises InvalidJobError (fix the job file) unless 1 <= parallelism <= max_parallelism <= MAX_PARALLELISM_LIMIT.
    """
    check_parallelism(parallelism, max_parallelism)
    assert 0 <= subtask_index < parallelism, (subtask_index, parallelism)  # caller's bug, not user input
    start = -(-subtask_index * max_parallelism // parallelism)  # ceiling division
    end = -(-(subtask_index + 1) * max_parallelism // parallelism)
    return KeyGroupRange(start, end)


def check_max_parallelism(max_parallelism: int) -> None:
    """Raise InvalidJobError (fix the job file) unless 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        msg = (
            "max_parallelism is outside the supported range, and it cannot change once state exists. "
            f"Set it between 1 and {MAX_PARALLELISM_LIMIT} in the job file. max_parallelism={max_parallelism}"
        )
        raise InvalidJobError(msg)


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raise InvalidJobError (fix the job file) unless every subtask would own at least one key group."""
    check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism:
        msg = (
            "a subtask without a key group would never receive data. "
            "Set `parallelism` between 1 and max_parallelism. "
            f"parallelism={parallelism}, max_parallelism={max_parallelism}"
        )
        raise InvalidJobError(msg)
