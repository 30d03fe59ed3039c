"""The tokens of a SQL text in Spark's dialect, and the statements that semicolons divide it into.

Only the outer shape is read: words, quotes, comments, parentheses. Spark parses what is between them.

Invariants (tests/config/test_sql_tokens.py):
  I1  tokens and what is skipped between them are the whole text
  I2  no quote, comment or parenthesis that does not end is read as something else
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Statement", "Token", "WrongSqlError", "statements_of", "text_of"]

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*)"""
    r"""|(?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<word>\w+)"""
    r"""|(?P<sign>\S)""",
    re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


class WrongSqlError(Exception):
    """A mistake in a SQL file.  line: from 1.  text: what is wrong and what to do."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, quoted name, string or sign.

    text: as written.  start: its position in the file, in characters.  line: its line, from 1.
    """

    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The text in upper case, as keywords are compared. A quoted name or string is no keyword."""
        return self.text.upper()

    @property
    def is_string(self) -> bool:
        """True for a text in single or double quotes."""
        return self.text[-1] in "'\"" and len(self.text) > 1

    @property
    def name(self) -> str | None:
        """The name that it is, without backquotes; None for a number, string or sign."""
        if self.text[0] == "`":
            return self.text[1:-1].replace("``", "`")
        return self.text if re.match(r"[^\W\d]", self.text) and not self.is_string else None

    @property
    def value(self) -> str:
        r"""The text that a string stands for, with Spark's escapes; another token as written.

        >>> Token(r"'a\tb'", 0, 1).value
        'a\tb'
        """
        if not self.is_string:
            return self.text
        if self.text[0] in "rR":
            return self.text[2:-1]
        return _ESCAPE.sub(lambda found: _unescaped(found[1]), self.text[1:-1])


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of one statement, at least one. Its semicolon is not among them."""

    tokens: tuple[Token, ...]

    @property
    def line(self) -> int:
        """The line on which it begins."""
        return self.tokens[0].line


def statements_of(text: str) -> tuple[Statement, ...]:
    """Return the statements of a file, without empty ones.

    Raises WrongSqlError for a quote, a comment or a parenthesis that does not end.
    """
    found: list[Statement] = []
    tokens: list[Token] = []
    for token in _tokens(text):
        if token.text == ";":
            found += _statement(tokens)
            tokens = []
        else:
            tokens.append(token)
    return (*found, *_statement(tokens))


def text_of(text: str, tokens: Sequence[Token]) -> str:
    """Return the part of the file from the first to the last of the tokens."""
    return text[tokens[0].start : tokens[-1].end] if tokens else ""


def _statement(tokens: list[Token]) -> Iterator[Statement]:
    opened: list[Token] = []
    for token in tokens:
        if token.text == "(":
            opened.append(token)
        elif token.text == ")" and not opened:
            raise WrongSqlError(token.line, "this closing parenthesis has no opening one. Remove it.")
        elif token.text == ")":
            opened.pop()
    if opened:
        raise WrongSqlError(opened[-1].line, "a parenthesis that is opened here is not closed. Add the closing one.")
    if tokens:
        yield Statement(tuple(tokens))


def _tokens(text: str) -> Iterator[Token]:
    position, line = 0, 1
    while found := _TOKEN.search(text, position):
        line += text.count("\n", position, found.start())
        if text.startswith("/*", found.start()):
            end = _comment_end(text, found.start(), line)
        else:
            end = found.end()
            if found["sign"] in ("'", '"', "`"):
                msg = f"a text in {found['sign']} that begins here does not end. Add the closing quote."
                raise WrongSqlError(line, msg)
            if found["comment"] is None:
                yield Token(found[0], found.start(), line)
        line += text.count("\n", found.start(), end)
        position = end


def _comment_end(text: str, start: int, line: int) -> int:
    """Return the position after a comment, in which others may be nested, as in Spark."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise WrongSqlError(line, "a comment that begins here does not end. Add */ at its end.")


def _unescaped(escape: str) -> str:
    if escape[0] == "u" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape in ("%", "_"):
        return f"\\{escape}"
    return _ESCAPED.get(escape, escape)


def joined_strings(tokens: Sequence[Token]) -> str | None:
    """Return the text of a string in which a doubled quote stands for one; None if the tokens are no such string.

    >>> joined_strings([Token("'it'", 0, 1), Token("'s'", 4, 1)])
    "it's"
    """
    if not tokens or not all(token.is_string for token in tokens):
        return None
    if any(left.end != right.start or left.text[-1] != right.text[0] for left, right in pairwise(tokens)):
        return None
    return tokens[0].text[-1].join(token.value for token in tokens)
