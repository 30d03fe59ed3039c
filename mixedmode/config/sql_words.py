"""The words of a statement of a SQL file, read from left to right."""

from collections.abc import Sequence
from typing import NoReturn

from mixedmode.config.sql_queries import WrittenQuery, read_query
from mixedmode.config.sql_tokens import Token, WrongSqlError, joined_strings

__all__ = ["Words"]

_BEGINS_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})


class Words:
    """The tokens of a statement, read from left to right."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._at = 0

    @property
    def line(self) -> int:
        """The line on which the statement begins."""
        return self._tokens[0].line

    @property
    def rest(self) -> Sequence[Token]:
        """The tokens that have not been read."""
        return self._tokens[self._at :]

    def refuse(self, text: str) -> NoReturn:
        """Raise WrongSqlError about the next token."""
        here = self.rest[0] if self.rest else self._tokens[-1]
        raise WrongSqlError(here.line, f"{text} found={here.text if self.rest else 'the end of the statement'}")

    def take(self, *words: str) -> bool:
        """Read these words if they come next. Return whether they did."""
        if not self._comes(*words):
            return False
        self._at += len(words)
        return True

    def _comes(self, *words: str) -> bool:
        return tuple(token.word for token in self.rest[: len(words)]) == words

    def name(self, what: str) -> str:
        """Read a name of one part.  what: such as "view", for the message."""
        if not self.rest or (name := self.rest[0].name) is None:
            self.refuse(f"here belongs the name of the {what}. Write it.")
        if "." in name or (len(self.rest) > 1 and self.rest[1].text == "."):
            self.refuse(f"the name of a {what} has one part here: a job has no catalog. Remove the others.")
        self._at += 1
        return name

    def parentheses(self) -> Sequence[Token] | None:
        """Read a part in parentheses, and return what is in it; None if none begins here."""
        if not self.rest or self.rest[0].text != "(":
            return None
        depth = 0
        for count, token in enumerate(self.rest):
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                inner = self.rest[1:count]
                self._at += count + 1
                return inner
        raise AssertionError(self.rest)  # statements_of has checked it

    def string(self, what: str) -> str:
        """Read a text in quotes."""
        count = 0
        while count < len(self.rest) and self.rest[count].is_string:
            count += 1
        value = joined_strings(self.rest[:count])
        if value is None:
            self.refuse(f"here belongs {what} in quotes. Write it.")
        self._at += count
        return value

    def columns(self, clause: str) -> tuple[str, ...]:
        """Read the names of columns in parentheses, which follow a clause."""
        inner = self.parentheses() or ()
        names = [token.name for token in inner[::2]]
        if not names or None in names or any(token.text != "," for token in inner[1::2]):
            self.refuse(f"{clause} has the names of columns in parentheses. Write {clause} (day).")
        return tuple(name for name in names if name is not None)

    def until(self, *ends: Sequence[str]) -> Sequence[Token]:
        """Read what comes before any of these words, and return it. What is in parentheses is not looked at."""
        first, depth = self.rest, 0
        while self.rest:
            if depth == 0 and any(self._comes(*words) for words in ends):
                break
            depth += {"(": 1, ")": -1}.get(self.rest[0].text, 0)
            self._at += 1
        return first[: len(first) - len(self.rest)]

    def query(self) -> WrittenQuery:
        """Read the query that the rest of the statement is."""
        if not self.rest or self.rest[0].word not in _BEGINS_QUERY:
            self.refuse("here belongs a query. Write a SELECT.")
        found = read_query(self.text, self.rest)
        self._at = len(self._tokens)
        return found

    def end(self, instead: str) -> None:
        """Raise WrongSqlError if there is more.  instead: what the statement may have."""
        if self.rest:
            self.refuse(f"this has no meaning here. {instead}")
