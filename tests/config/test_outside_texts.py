"""Texts of requests and of the command line: each is a value or a ValueError, and can be shown."""

import pytest

from mixedmode.config.outside_texts import parse_json, shown_value, whole_number

#: texts on which a parser or a message may fail in its own way
ODD = (
    *("", " ", "a", "\x00", "\xff", "\ud800", "\udcff", "\u00b2", "-1", "nan", "inf", "1e400", "{}", "[", "[1", "null"),
    *("9" * 5000, "[" + "9" * 5000 + "]", "[" + "9" * 4000 + "]", "[" * 20_000, "[" * 900 + "]" * 900),
    *('["\\ud800"]', '["\ud800"]', "[1e400]", "[NaN]", "[null]", "[true]", "[[]]", "[{}]", '[{"a": 1}]'),
    *("2020-13-45", "99999-01-01", "0001-01-01T00:00:00+23:59"),
)


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text[:20]))
def test_every_text_is_json_or_a_value_error_and_its_value_can_be_shown(text: str) -> None:
    try:
        found = parse_json(text)
    except ValueError:
        found = text
    assert len(shown_value(found)) <= 200
    assert whole_number(text) is None


def test_a_whole_number_has_at_most_18_digits() -> None:
    assert [whole_number(text) for text in ("0", "007", "9" * 18, "9" * 19)] == [0, 7, 10**18 - 1, None]
