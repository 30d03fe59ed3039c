"""List state: what becomes of the lists of a step's subtasks when the next epoch begins, maybe with other subtasks.

The one idea: an item is a granule. Nobody looks into it, and a list is handed on as a whole or item by item:

    split   the subtask's own list while their number stays; when it changes, all items, round robin
    union   all items, to each subtask, in every epoch
    None    the subtask's own list; the number of subtasks must not change

So under union a subtask snapshots its own part only: what every subtask snapshots, every subtask gets.

Source: Flink, FLIP-8; runtime/checkpoint/RoundRobinOperatorStateRepartitioner.java.
Invariants (tests/state/test_lists.py):
  I1  split: every item is handed to one subtask, whatever the numbers of subtasks before and now
  I2  split: the lists that a change gives differ by at most one item in length
  I3  union: each subtask is handed every item once, in one order
  I4  the bytes of an item never change
"""

from mixedmode.checkpoint.types import Redistribution
from mixedmode.errors import InvalidJobError

__all__ = ["LIST_BYTES_MAX", "Lists", "check_size", "list_bytes", "redistribute", "rescaling_problem"]

#: one list of items per subtask, in the order of the subtasks; () before the first epoch
Lists = tuple[tuple[str, ...], ...]

#: of all lists of a step, as text in the manifest: each epoch writes them anew, 86,400 times a day at one a second
LIST_BYTES_MAX = 1024 * 1024


def redistribute(lists: Lists, redistribution: Redistribution, parallelism: int) -> Lists:
    """The list of each of `parallelism` subtasks, from the lists that the epoch before left.

    Requires that `rescaling_problem` finds none.
    """
    assert parallelism >= 1, parallelism
    if not lists:
        return ((),) * parallelism
    everything = tuple(item for items in lists for item in items)
    if redistribution == "union":
        return (everything,) * parallelism
    if len(lists) == parallelism:
        return lists
    assert redistribution == "split", (len(lists), parallelism)
    return tuple(everything[subtask::parallelism] for subtask in range(parallelism))


def rescaling_problem(operator_id: str, lists: Lists, redistribution: Redistribution, parallelism: int) -> str | None:
    """Why a step cannot go on with so many subtasks, as the text of an InvalidJobError; None if it can."""
    if redistribution is not None or len(lists) in {0, parallelism}:
        return None
    return (
        f"step {operator_id!r} keeps a list per subtask, and its function does not say what becomes of the lists when "
        "their number changes, so some would be lost. Declare `redistribution` in the class: 'split' deals the items "
        "out, 'union' gives all of them to each subtask. Or put the parallelism back. "
        f"parallelism={parallelism}, parallelism_stored={len(lists)}"
    )


def list_bytes(lists: Lists) -> int:
    """What the lists take in a manifest."""
    return sum(len(item) for items in lists for item in items)


def check_size(operator_id: str, lists: Lists, redistribution: Redistribution) -> None:
    """Raises InvalidJobError when the lists of a step, or those of one subtask, are too large for a manifest."""
    size = list_bytes(lists)
    if size <= LIST_BYTES_MAX:
        return
    union = " Under 'union' a subtask snapshots its own part only." if redistribution == "union" else ""
    msg = (
        "the list state of a step is too large: it is written whole into the manifest of every epoch. Nothing of this "
        f"epoch is committed.{union} Keep fewer or smaller items, or use a keyed process function, whose state may be "
        f"of any size. step={operator_id}, items={sum(map(len, lists))}, bytes={size}, bytes_allowed={LIST_BYTES_MAX}"
    )
    raise InvalidJobError(msg)
