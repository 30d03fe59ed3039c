"""The row that says whose a table is, and what is in it: pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.errors import FencedError, InvalidJobError
from mixedmode.sinks.tables.ledger import (
    ENTRY_COLUMNS,
    Entry,
    Writer,
    entry_of,
    is_published,
    new_entry,
    published,
    row_of,
)

WRITER = Writer("job", "", "continuous", "id", Generation(3))


def test_another_owner_and_a_newer_generation_are_fenced_and_an_older_one_is_not() -> None:
    mine = new_entry(WRITER, ("k",))
    assert not is_published(mine, WRITER, Epoch(0), "t")
    with pytest.raises(FencedError, match=r"own_generation=3, newest_generation=4, table=t$"):
        is_published(Entry("job", "", "continuous", "id", 4, ("k",)), WRITER, Epoch(0), "t")
    with pytest.raises(FencedError, match="has taken over this table"):
        is_published(Entry("job", "", "continuous", "other", 1, ("k",)), WRITER, Epoch(0), "t")
    with pytest.raises(InvalidJobError, match="the row of this table in _mixedmode was deleted"):
        is_published(None, WRITER, Epoch(0), "t")
    assert not is_published(Entry("job", "", "continuous", "id", 2, ("k",)), WRITER, Epoch(0), "t")


ENTRY = Entry("job", "", "continuous", "id", 4, ("k", "ü"), Epoch(0), None, "digest")


def test_a_row_of_the_ledger_is_read_as_it_was_written() -> None:
    assert entry_of(row_of(ENTRY), "t") == ENTRY


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("key_columns", text) for text in ("", "{", "null", "7", '"k"', '["k", 1]', '["k"]x', "\0", None)),
        *((name, "words") for name in ("run", "generation", "first_epoch", "last_epoch")),
        *((name, None) for name in ENTRY_COLUMNS if name not in ("first_epoch", "last_epoch")),
        *((name, b"\xff") for name in ENTRY_COLUMNS),
    ],
)
def test_a_row_of_the_ledger_that_others_have_written_is_named(column: str, value: object) -> None:
    values = [value if name == column else old for name, old in zip(ENTRY_COLUMNS, row_of(ENTRY), strict=True)]
    with pytest.raises(InvalidJobError, match=r"has other values than this program writes.*table=t$"):
        entry_of(values, "t")


@given(st.lists(st.tuples(st.sampled_from(["publish", "back"]), st.integers(0, 9)), max_size=30))
def test_exactly_the_epochs_published_and_not_rolled_back_count(steps: list[tuple[str, int]]) -> None:
    """The oracle is the set of epochs; they are published in ascending order, with gaps where there were no rows."""
    entry, model = new_entry(WRITER, ("k",)), set[int]()
    for step, number in steps:
        if step == "publish":
            epoch = Epoch(max(model, default=-1) + 1 + number % 3)
            assert not is_published(entry, WRITER, epoch, "t")
            entry = published(entry, WRITER, epoch, f"up to {epoch}")
            model.add(epoch)
        else:
            entry = entry.forget(Epoch(number), WRITER, f"up to {number}")
            model = {epoch for epoch in model if epoch <= number}
            if model and entry.last_epoch is not None:
                model.add(entry.last_epoch)  # up to where it went back, which had no rows
        assert all(entry.covers(Epoch(epoch)) for epoch in model)
        assert not entry.covers(Epoch(max(model, default=-1) + 1))
        assert entry.first_epoch == min(model, default=None)
        assert (entry.last_epoch is None) == (not model)
