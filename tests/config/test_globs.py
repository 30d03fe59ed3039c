"""Paths as globs: what is a pattern, what it matches, and how a name is written so that it matches itself alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.config.globs import InputPath, alternatives, escaped, has_magic, input_path, pattern_of

NAMES = [
    "plain",
    "a b",
    "a%20b",
    "a#b",
    "a?b",
    "ünï€",
    "new\nline",
    "{a,b}",
    "run[12]",
    "br[ack]{ets}",
    "back\\slash",
    "*",
]
_names = st.text(st.sampled_from("ab*?[]{}\\,!^-. \n€"), min_size=1).filter(lambda name: name not in {".", ".."})


@given(st.lists(_names, min_size=1, max_size=4), st.integers(0, 4))
@example(["?", "{", "}"], 2)  # braces of two names are no pattern where the first name exists
def test_what_exists_is_no_pattern_and_what_does_not_is_one_from_there_on(names: list[str], there: int) -> None:
    existing = {"/" + "/".join(names[:count]) for count in range(1, there + 1)}
    path = input_path("/" + "/".join(names), existing.__contains__)
    if there >= len(names):
        assert path == InputPath("/" + "/".join(names))
    if path.has_pattern:
        first = path.literal.count("/") if path.literal != "/" else 0
        assert first >= min(there, len(names))
        assert has_magic(path.parts[0])


@given(_names, _names)
def test_an_escaped_name_matches_itself_and_no_other(name: str, other: str) -> None:
    pattern = pattern_of(escaped(name))
    assert pattern.fullmatch(name)
    assert bool(pattern.fullmatch(other)) == (name == other)


@pytest.mark.parametrize(
    ("part", "matched", "others"),
    [
        ("*.json", ["a.json", ".json"], ["a.json2", "ajson"]),
        ("run[12]", ["run1", "run2"], ["run[12]", "run3"]),
        ("[!a]?", ["bc"], ["ac", "b"]),
        ("{a,b*}.c", ["a.c", "bx.c"], ["c.c", "a,b.c"]),
        (r"\{a,b\}", ["{a,b}"], ["a", "b"]),
        ("(a|b)+$", ["(a|b)+$"], ["a", "ab"]),
    ],
)
def test_a_pattern_matches_what_hadoop_says(part: str, matched: list[str], others: list[str]) -> None:
    assert [name for name in [*matched, *others] if pattern_of(part).fullmatch(name)] == matched


def test_braces_with_slashes_are_paths_of_their_own() -> None:
    path = input_path("/in/{2023/1[12],2024}/*.json", lambda _: False)
    assert path == InputPath("/in", ("{2023/1[12],2024}", "*.json"))
    assert [one.parts for one in alternatives(path)] == [("2023", "1[12]", "*.json"), ("2024", "*.json")]


@pytest.mark.parametrize("name", NAMES)
def test_a_url_keeps_its_root(name: str) -> None:
    url = f"s3a://bucket/{name}/x"
    assert input_path(url, lambda _: True) == InputPath(url)
