"""The right to send a request: tokens, and for requests without a token the headers of a browser. Pure.

    public     the files of the page, /healthz and /readyz: nothing of the job is in them
    read       needs the read token, or the control token
    control    needs the control token

A server without any token listens on a loopback address only. Then a web page of somebody else, in a browser on this
machine, is the attacker. It cannot read an answer of another origin, unless its own name leads to this machine (DNS
rebinding): so `Host` must name this machine. It can send a form: so control needs a header of its own, which a form
cannot have, and an `Origin` that is the server's own.

If a read token is not set, but a control token is, reading needs no token, and control needs one.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from mixedmode.serve.address import Tokens, is_loopback

__all__ = ["CONTROL_HEADER", "Kind", "Refusal", "refusal"]

Kind = Literal["public", "read", "control"]
#: the header that control needs on a server without tokens; any value that is not empty
CONTROL_HEADER = "x-mixedmode-control"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that is not allowed."""

    status: int
    message: str


def refusal(kind: Kind, headers: Mapping[str, str], tokens: Tokens) -> Refusal | None:
    """Return why a request is not allowed; None if it is allowed.  headers: by lower-case name."""
    if kind == "public":
        return None
    given = _bearer(headers)
    if tokens.control is not None and _is_same(given, tokens.control):
        return None
    if kind == "read" and tokens.read is not None:
        if _is_same(given, tokens.read):
            return None
        return Refusal(401, "this needs the token that reads, as `Authorization: Bearer TOKEN`")
    if kind == "control" and tokens.is_any_set:
        if tokens.control is None:
            return Refusal(403, "control is off: the server has a token that reads, and none that controls")
        if tokens.read is not None and _is_same(given, tokens.read):
            return Refusal(403, "this needs the token that controls; the one that was sent only reads")
        return Refusal(401, "this needs the token that controls, as `Authorization: Bearer TOKEN`")
    return _refusal_of_browser(kind, headers)


def _refusal_of_browser(kind: Kind, headers: Mapping[str, str]) -> Refusal | None:
    """Return why a request without a token is not allowed: its headers show that another site may have sent it."""
    host = headers.get("host", "")
    if not _names_this_machine(host):
        return Refusal(421, "without a token, the header Host must name this machine, such as localhost or 127.0.0.1")
    if kind == "read":
        return None
    if not headers.get(CONTROL_HEADER):
        return Refusal(403, f"without a token, control needs the header {CONTROL_HEADER}: 1")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return Refusal(403, "a page of another origin sent this request")
    return None


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_same(given: str, token: str) -> bool:
    """Compare in a time that does not depend on the text."""
    return hmac.compare_digest(given.encode(), token.encode())


@lru_cache(256)
def _names_this_machine(host: str) -> bool:
    """Return whether a header Host names this machine. Nearly all requests have the same one."""
    return is_loopback(_host_name(host))


def _host_name(host: str) -> str:
    """Return the host of the header Host; "" if there is none.

    >>> _host_name("localhost:8080"), _host_name("[::1]:80"), _host_name("a@localhost")
    ('localhost', '::1', '')
    """
    if any(character in host for character in "@/\\?# "):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
