"""List state: redistribute the lists of a step's subtasks at the start of an epoch, maybe to more or fewer subtasks.

An item is indivisible. Lists are passed on as a whole or item by item:

    split   the same lists if the number of subtasks is unchanged; otherwise all items are dealt out round robin
    union   every subtask receives all items, in every epoch
    None    the same lists; the number of subtasks must not change

    Example: the lists (a, b, c) and (d) on 3 subtasks. Split: (a, d), (b), (c). Union: (a, b, c, d) for each subtask.

Under union a subtask must snapshot only its own items, because every subtask receives the snapshots of all subtasks.

Source: Flink, FLIP-8; runtime/checkpoint/RoundRobinOperatorStateRepartitioner.java.
Invariants (tests/state/test_lists.py):
  I1  split: exactly one subtask receives each item, for any old and new numbers of subtasks
  I2  split: if the number of subtasks changes, the lengths of the new lists differ by at most one item
  I3  union: each subtask receives every item once, and all in the same order
  I4  the bytes of an item never change
"""

from mixedmode.checkpoint.types import Redistribution
from mixedmode.errors import InvalidJobError

__all__ = ["LIST_BYTES_MAX", "Lists", "check_size", "list_bytes", "redistribute", "rescaling_problem"]

#: one list of items per subtask, in the order of the subtasks; () before the first epoch
Lists = tuple[tuple[str, ...], ...]

#: the limit for all lists of a step, as text in the manifest. Each epoch writes all lists again: 86,400 times a day
#: at one epoch a second
LIST_BYTES_MAX = 1024 * 1024


def redistribute(lists: Lists, redistribution: Redistribution, parallelism: int) -> Lists:
    """Return the list of each of `parallelism` subtasks, from the lists of the previous epoch.

    Requires that `rescaling_problem` returns None.
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
    """Return why a step cannot run with this number of subtasks, as the text of an InvalidJobError; None if it can."""
    if redistribution is not None or len(lists) in {0, parallelism}:
        return None
    return (
        f"step {operator_id!r} keeps a list per subtask, and its function does not say what becomes of the lists when "
        "their number changes, so some would be lost. Declare `redistribution` in the class: 'split' deals the items "
        "out, 'union' gives all of them to each subtask. Or put the parallelism back. "
        f"parallelism={parallelism}, parallelism_stored={len(lists)}"
    )


def list_bytes(lists: Lists) -> int:
    """Return the size of the lists in a manifest, in characters of base64 text."""
    return sum(len(item) for items in lists for item in items)


def check_size(operator_id: str, lists: Lists, redistribution: Redistribution) -> None:
    """Raise InvalidJobError if the lists of a step, or those of one subtask, are too large for a manifest."""
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
