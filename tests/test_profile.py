"""Seconds by stage: each moment belongs to one stage at most, and none is lost."""

import weakref
from collections.abc import Iterator
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.profile import Profile, add_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_inside_another_one_pauses_it() -> None:
    clock = Clock()
    profile = Profile(clock)
    clock.now += 5  # before any stage: nobody's
    with profile.stage("outer"):
        clock.now += 1
        with profile.stage("inner"):
            clock.now += 10
        clock.now += 2
    clock.now += 7  # between stages
    with profile.stage("outer"):
        clock.now += 4
    assert profile.seconds == {"outer": 7.0, "inner": 10.0}


def test_making_items_is_timed_and_using_them_is_not() -> None:
    clock = Clock()
    profile = Profile(clock)

    def items() -> Iterator[int]:
        for number in range(3):
            clock.now += 1
            yield number
        clock.now += 0.5  # the end takes its time, too

    seen = []
    for item in profile.each("make", items()):
        clock.now += 100
        seen.append(item)
    assert seen == [0, 1, 2]
    assert profile.seconds == {"make": 3.5}


def test_an_item_that_the_caller_has_let_go_is_gone_while_the_next_one_is_made() -> None:
    class Item:
        pass

    made: list[weakref.ref[Item]] = []

    def items() -> Iterator[Item]:
        for _ in range(3):
            assert all(reference() is None for reference in made)
            item = Item()
            made.append(weakref.ref(item))
            yield item
            del item

    for item in Profile().each("make", items()):
        del item
    assert len(made) == 3


def test_a_stage_that_fails_has_ended() -> None:
    clock = Clock()
    profile = Profile(clock)
    with profile.stage("outer"):
        with suppress(ZeroDivisionError), profile.stage("inner"):
            clock.now += 1
            _ = 1 / 0
        clock.now += 2
    assert profile.seconds == {"outer": 2.0, "inner": 1.0}


@given(st.recursive(st.integers(0, 5), lambda inner: st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3)))
def test_all_stages_together_are_the_time_that_passed(tree: object) -> None:
    clock = Clock()
    profile = Profile(clock)

    def run(part: object) -> None:
        if isinstance(part, int):
            clock.now += part
        else:
            for name, inner in part:  # type: ignore[attr-defined]  # hypothesis made it a list of pairs
                with profile.stage(name):
                    run(inner)

    with profile.stage("all"):
        run(tree)
    assert sum(profile.seconds.values()) == clock.now - 100


def test_profiles_add_up_stage_by_stage() -> None:
    assert add_seconds({"a": 1.0, "b": 2.0}, {}, {"b": 3.0, "c": 4.0}) == {"a": 1.0, "b": 5.0, "c": 4.0}
