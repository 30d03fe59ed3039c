"""List state handed on: nothing is lost and nothing doubled, whatever the numbers of subtasks."""

from collections import Counter
from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.state.lists import LIST_BYTES_MAX, Lists, check_size, list_bytes, redistribute, rescaling_problem

CHAIN = (1, 2, 4, 3, 1)
ITEMS = st.text("abc", max_size=3)
LISTS = st.lists(st.lists(ITEMS, max_size=6).map(tuple), min_size=1, max_size=7).map(tuple)
PARALLELISM = st.integers(1, 9)


def items_of(lists: Lists) -> Counter[str]:
    return Counter(chain.from_iterable(lists))


@given(LISTS, PARALLELISM)
def test_split_gives_every_item_to_one_subtask(lists: Lists, parallelism: int) -> None:
    """I1, and I4: equal items are items of their own."""
    given_out = redistribute(lists, "split", parallelism)
    assert len(given_out) == parallelism
    assert items_of(given_out) == items_of(lists)


@given(LISTS, PARALLELISM)
def test_split_deals_evenly_when_the_number_of_subtasks_changes_and_moves_nothing_else(
    lists: Lists, parallelism: int
) -> None:
    """I2."""
    given_out = redistribute(lists, "split", parallelism)
    if len(lists) == parallelism:
        assert given_out == lists
    else:
        lengths = list(map(len, given_out))
        assert max(lengths) - min(lengths) <= 1


@given(LISTS, PARALLELISM)
def test_union_gives_every_item_to_every_subtask(lists: Lists, parallelism: int) -> None:
    """I3."""
    given_out = redistribute(lists, "union", parallelism)
    assert given_out == (tuple(chain.from_iterable(lists)),) * parallelism


@given(LISTS, st.lists(PARALLELISM, max_size=6))
def test_a_chain_of_rescalings_loses_nothing_and_doubles_nothing(lists: Lists, steps: list[int]) -> None:
    split = union = lists
    for parallelism in (*CHAIN, *steps):
        split = redistribute(split, "split", parallelism)
        handed = redistribute(union, "union", parallelism)
        union = tuple(handed[subtask][subtask::parallelism] for subtask in range(parallelism))  # each keeps its part
        assert items_of(split) == items_of(union) == items_of(lists)


@pytest.mark.parametrize(("before", "now"), list(product(range(1, 5), range(1, 5))))
def test_round_robin_is_as_written_for_every_combination(before: int, now: int) -> None:
    lists = tuple(tuple(f"{subtask}.{number}" for number in range(3)) for subtask in range(before))
    everything = [item for items in lists for item in items]
    expected = lists if before == now else tuple(tuple(everything[subtask::now]) for subtask in range(now))
    assert redistribute(lists, "split", now) == expected


@given(st.sampled_from(["split", "union", None]), PARALLELISM)
def test_before_the_first_epoch_every_list_is_empty(redistribution: str | None, parallelism: int) -> None:
    assert redistribute((), redistribution, parallelism) == ((),) * parallelism  # type: ignore[arg-type]
    assert rescaling_problem("a", (), None, parallelism) is None


@given(LISTS, PARALLELISM)
def test_without_a_redistribution_the_number_of_subtasks_stays(lists: Lists, parallelism: int) -> None:
    problem = rescaling_problem("numbering", lists, None, parallelism)
    if len(lists) == parallelism:
        assert problem is None
        assert redistribute(lists, None, parallelism) == lists
    else:
        assert problem == (
            "step 'numbering' keeps a list per subtask, and its function does not say what becomes of the lists when "
            "their number changes, so some would be lost. Declare `redistribution` in the class: 'split' deals the "
            "items out, 'union' gives all of them to each subtask. Or put the parallelism back. "
            f"parallelism={parallelism}, parallelism_stored={len(lists)}"
        )
    assert rescaling_problem("numbering", lists, "split", parallelism) is None
    assert rescaling_problem("numbering", lists, "union", parallelism) is None


def test_lists_that_are_too_large_for_a_manifest_are_refused() -> None:
    fits = (("x" * (LIST_BYTES_MAX - 1),), ("y",))
    check_size("a", fits, "split")
    assert list_bytes(fits) == LIST_BYTES_MAX
    with pytest.raises(InvalidJobError) as caught:
        check_size("packets", (*fits, ("z",)), "split")
    assert str(caught.value) == (
        "the list state of a step is too large: it is written whole into the manifest of every epoch. Nothing of this "
        "epoch is committed. Keep fewer or smaller items, or use a keyed process function, whose state may be of any "
        f"size. step=packets, items=3, bytes={LIST_BYTES_MAX + 1}, bytes_allowed={LIST_BYTES_MAX}"
    )
    with pytest.raises(InvalidJobError, match="Under 'union' a subtask snapshots its own part only"):
        check_size("packets", (*fits, ("z",)), "union")
