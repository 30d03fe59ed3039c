"""Statements and tokens of SQL files: quotes and comments hide semicolons, and lines are those of the file."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config.sql_tokens import WrongSqlError, joined_strings, statements_of, text_of


def words(text: str) -> list[list[str]]:
    return [[token.text for token in statement.tokens] for statement in statements_of(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; ;; -- nothing\n", []),
        ("SET a = 1; SET b = 2", [["SET", "a", "=", "1"], ["SET", "b", "=", "2"]]),
        ("SELECT ';' -- ; '\n, 1", [["SELECT", "';'", ",", "1"]]),
        ("SELECT /* ; /* ; */ ; */ 1", [["SELECT", "1"]]),
        ("SELECT /*+ BROADCAST(t) */ 1", [["SELECT", "1"]]),
        (r"SELECT 'it\'s;', 'it''s;'", [["SELECT", r"'it\'s;'", ",", "'it'", "'s;'"]]),
        (r"SELECT r'\', R'\;'; SET x", [["SELECT", r"r'\'", ",", r"R'\;'"], ["SET", "x"]]),
        ('SELECT "a;""b"', [["SELECT", '"a;"', '"b"']]),
        ("SELECT `a;``b`, x'1F'", [["SELECT", "`a;``b`", ",", "x", "'1F'"]]),
        ("SELECT a--;\n;b", [["SELECT", "a"], ["b"]]),
        ("SELECT größe", [["SELECT", "größe"]]),
    ],
)
def test_semicolons_divide_outside_of_quotes_and_comments(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("SELECT 1;\n'abc", 2, "a text in ' that begins here does not end"),
        ('\n\n"abc', 3, 'a text in " that begins here does not end'),
        ("`abc", 1, "a text in ` that begins here does not end"),
        ("SELECT 1\n/* /* */", 2, "a comment that begins here does not end"),
        ("SELECT (1;\nSELECT 2)", 1, "a parenthesis that is opened here is not closed"),
        ("SELECT 1;\nSELECT 2)", 2, "this closing parenthesis has no opening one"),
    ],
)
def test_what_does_not_end_is_named_with_its_line(text: str, line: int, about: str) -> None:
    with pytest.raises(WrongSqlError, match=about) as caught:
        statements_of(text)
    assert caught.value.line == line


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "SET",
                    "a",
                    "`a;b`",
                    "''",
                    "';'",
                    "'\\''",
                    '"-- "',
                    "r'\\'",
                    "/* ; */",
                    "-- '\n",
                    "(",
                    ")",
                    ";",
                    "\n",
                ),
                *(" ", "=", "1.5", "ä"),
            ]
        )
    )
)
def test_tokens_and_what_is_skipped_are_the_whole_text(parts: list[str]) -> None:
    text = " ".join(parts)
    try:
        statements = statements_of(text)
    except WrongSqlError:
        assert parts.count("(") or parts.count(")"), "only parentheses can be wrong here"
        return
    skipped, position = "", 0
    for token in (token for statement in statements for token in statement.tokens):
        assert text[token.start : token.end] == token.text
        assert token.line == text.count("\n", 0, token.start) + 1
        skipped += text[position : token.start]
        position = token.end
    assert not re.sub(r"/\* ; \*/|-- '\n|[;\s]", "", skipped + text[position:])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'a\tb'", "a\tb"),
        (r"'a\\b'", r"a\b"),
        (r"'\%\_\q\u0041'", r"\%\_qA"),
        (r"r'a\tb'", r"a\tb"),
        ("'it''s'", "it's"),
        ('"say ""so"""', 'say "so"'),
        ("'a' 'b'", None),
        ("'a'\"b\"", None),
        ("a", None),
    ],
)
def test_a_string_stands_for_its_text(written: str, value: str | None) -> None:
    (statement,) = statements_of(written)
    assert joined_strings(statement.tokens) == value


def test_a_part_of_the_file_is_the_text_between_tokens() -> None:
    text = "SELECT  a -- why\n , b ;"
    (statement,) = statements_of(text)
    assert text_of(text, statement.tokens[1:]) == "a -- why\n , b"
    assert not text_of(text, ())
