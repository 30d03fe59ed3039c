"""The result file: it comes back as it was, and what is none is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode_bench.contestant import EpochSpan, Outcome
from mixedmode_bench.document import read_document, write_document
from mixedmode_bench.results import Document, Entry, Figure, Machine, Measured, Ratio, Run

numbers = st.floats(0, 1e9)
names = st.text(max_size=10)
spans = st.builds(EpochSpan, numbers, numbers, st.integers(0, 2**40), st.booleans())
outcomes = st.builds(
    Outcome,
    numbers,
    st.dictionaries(names, numbers, max_size=3),
    st.lists(spans, max_size=3).map(tuple),
    st.dictionaries(names, numbers, max_size=3),
)
runs = st.builds(
    Run, st.integers(0, 9), outcomes, st.dictionaries(names, st.integers(0, 2**40)), st.none() | st.integers(0, 2**40)
)
entries = st.builds(Entry, names, names, st.booleans(), st.integers(1, 10**8), st.lists(runs, max_size=3).map(tuple))
by_round = st.lists(numbers, min_size=1, max_size=3).map(tuple)
measured = st.builds(
    Measured,
    workload=names,
    title=names,
    events=st.integers(1),
    keys=st.integers(1),
    input_bytes=st.integers(0),
    entries=st.lists(entries, max_size=2).map(tuple),
    ratios=st.lists(st.builds(Ratio, names, names, by_round, st.none() | numbers), max_size=2).map(tuple),
    figures=st.lists(st.builds(Figure, names, names, names, by_round), max_size=2).map(tuple),
    left_out=st.dictionaries(names, names),
    is_full=st.booleans(),
)
MACHINE = Machine(2, 2**34, "a processor", "Linux 6", {"python": "3.11.7"})
documents = st.builds(
    Document, names, names, st.integers(1, 9), st.just(MACHINE), st.lists(measured, max_size=2).map(tuple)
)


@given(document=documents)
def test_a_document_comes_back_as_it_was(document: Document, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "documents" / "result.json"
    write_document(document, file)
    assert read_document(file) == document
    assert [path.name for path in file.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 2, "runs": []}', "of another format, of another version of mixedmode.*format=2, expected=1"),
        ('{"figures": []}', "not a result of `mixedmode bench`, or it is damaged: .*`format`"),
        ('{"format": 1, "command": "x"}', "not a result of `mixedmode bench`, or it is damaged"),
        ("no JSON", "not a result of `mixedmode bench`, or it is damaged"),
    ],
)
def test_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(InvalidJobError, match=message):
        read_document(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"cannot be read: No such file.*file=.*nothing\.json"):
        read_document(tmp_path / "nothing.json")
