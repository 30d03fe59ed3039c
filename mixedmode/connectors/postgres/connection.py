"""Connections to PostgreSQL through psycopg: the URL with its secrets, and the texts of errors without them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mixedmode.errors import InvalidJobError
from mixedmode.secrets import hidden, is_variable, resolve

__all__ = ["Login", "connected"]

#: defaults that the URL may override: they detect a dead server even if no packet reports it
_DEFAULTS = {"connect_timeout": "10", "tcp_user_timeout": "30000", "application_name": "mixedmode"}


class Login:
    """A URL with its secrets."""

    def __init__(self, url: str, *, where: str, place: str) -> None:
        """Look the secrets up. Raise InvalidJobError, beginning with `where`, if one is missing or the URL is wrong.

        A variable in the URL may hold any character.
        """
        text = resolve(url, where=where, encode=str if is_variable(url) else partial(quote, safe=""))
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(text).items()}
        except psycopg.Error:
            msg = (
                "PostgreSQL cannot read this url. Write postgresql://user:${env:NAME}@host:5432/database; "
                f"characters of a password that are written there themselves are escaped as %XX. table={place}"
            )
            raise InvalidJobError(msg) from None  # the original text would show a part of the password
        self.conninfo = make_conninfo("", **{**_DEFAULTS, **given, "client_encoding": "UTF8"})
        self._password = given.get("password")

    def told(self, error: psycopg.Error) -> str:
        """Return the text of an error in one line, without secrets."""
        text = hidden(" ".join(str(error).split()))
        return text.replace(self._password, "***") if self._password else text


@contextmanager
def connected(login: Login) -> Iterator[psycopg.Connection]:
    """Yield a connection with an open transaction, which is committed at the end. Raise the errors of psycopg."""
    # also closes the connection if the commit fails; psycopg's own block would leave it open
    with closing(psycopg.connect(login.conninfo, prepare_threshold=None)) as connection, connection:
        yield connection
