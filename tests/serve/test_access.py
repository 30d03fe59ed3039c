"""Addresses of the server, and requests that it allows: addresses, tokens, Host and Origin."""

from pathlib import Path

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.serve.access import Kind, refusal
from mixedmode.serve.address import (
    CONTROL_TOKEN,
    READ_TOKEN,
    Address,
    Tokens,
    check_exposed,
    parse_address,
    read_tokens,
)
from tests.config.test_outside_texts import ODD

READ, CONTROL = "r" * 20, "c" * 20
BOTH = Tokens(READ, CONTROL)
NONE = Tokens()
LOCAL = {"host": "localhost:8080"}
OWN = {**LOCAL, "x-mixedmode-control": "1"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", Address("127.0.0.1", 8080)),
        ("0", Address("127.0.0.1", 0)),
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
        ("[::]:80", Address("::", 80)),
        ("example.org:443", Address("example.org", 443)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [*("", ":", ":80", "host", "::1:80", "host:", "host:-1", "65536", "٣", "[]:80", " :80"), *ODD],
    ids=lambda text: repr(text[:20]),
)
def test_another_text_is_no_address(text: str) -> None:
    with pytest.raises(InvalidJobError, match="the address of the server is not one"):
        parse_address(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org", ""])
def test_an_address_that_others_reach_needs_a_token_and_tls(host: str) -> None:
    address, cert, key = Address(host, 8080), Path("cert.pem"), Path("key.pem")
    with pytest.raises(InvalidJobError, match=f"a token that reads, in the variable {READ_TOKEN}; TLS"):
        check_exposed(address, NONE, cert=None, key=None)
    with pytest.raises(InvalidJobError, match="Missing: TLS"):
        check_exposed(address, BOTH, cert=None, key=None)
    with pytest.raises(InvalidJobError, match="Missing: a token that reads"):
        check_exposed(address, Tokens(control=CONTROL), cert=cert, key=key)
    check_exposed(address, Tokens(read=READ), cert=cert, key=key)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_an_address_of_this_machine_needs_nothing_and_half_of_tls_is_a_mistake(host: str) -> None:
    check_exposed(Address(host, 8080), NONE, cert=None, key=None)
    with pytest.raises(InvalidJobError, match="name both files"):
        check_exposed(Address(host, 8080), BOTH, cert=Path("cert.pem"), key=None)


def test_tokens_are_long_and_different_and_an_error_does_not_show_them() -> None:
    assert read_tokens({READ_TOKEN: READ, CONTROL_TOKEN: ""}) == Tokens(read=READ)
    assert read_tokens({READ_TOKEN: READ, CONTROL_TOKEN: CONTROL}) == BOTH
    for wrong in ("short", "ü" * 20, "line\n" * 5):
        with pytest.raises(InvalidJobError, match="at least 16 printable ASCII characters") as caught:
            read_tokens({READ_TOKEN: wrong})
        assert wrong not in str(caught.value)
    with pytest.raises(InvalidJobError, match="two different tokens"):
        read_tokens({READ_TOKEN: READ, CONTROL_TOKEN: READ})


@pytest.mark.parametrize(
    ("kind", "tokens", "headers", "status"),
    [
        # a server with both tokens: the header Host does not matter
        ("public", BOTH, {}, None),
        ("read", BOTH, {}, 401),
        ("read", BOTH, {"authorization": f"Bearer {READ}"}, None),
        ("read", BOTH, {"authorization": f"bearer {CONTROL}"}, None),
        ("read", BOTH, {"authorization": f"Basic {READ}"}, 401),
        ("read", BOTH, {"authorization": f"Bearer {READ[:-1]}"}, 401),
        ("read", BOTH, {"authorization": f"Bearer {READ}x"}, 401),
        ("read", BOTH, {"authorization": "Bearer "}, 401),
        ("read", BOTH, {"authorization": "Bearer é"}, 401),
        ("read", BOTH, {**OWN}, 401),
        ("control", BOTH, {"authorization": f"Bearer {CONTROL}", "origin": "https://other.example"}, None),
        ("control", BOTH, {"authorization": f"Bearer {READ}"}, 403),
        ("control", BOTH, OWN, 401),
        # only a token that reads: control is off
        ("control", Tokens(read=READ), {**OWN, "authorization": f"Bearer {READ}"}, 403),
        # only a token that controls: reading is open on this machine
        ("read", Tokens(control=CONTROL), LOCAL, None),
        ("read", Tokens(control=CONTROL), {"host": "other.example"}, 421),
        ("control", Tokens(control=CONTROL), OWN, 401),
        # no token: the headers of a browser decide
        ("read", NONE, LOCAL, None),
        ("read", NONE, {"host": "127.0.0.1"}, None),
        ("read", NONE, {"host": "[::1]:8080"}, None),
        ("read", NONE, {}, 421),
        ("read", NONE, {"host": "other.example:8080"}, 421),
        ("read", NONE, {"host": "localhost.other.example"}, 421),
        ("read", NONE, {"host": "other.example#@localhost"}, 421),
        ("read", NONE, {"host": "[::1"}, 421),
        ("control", NONE, LOCAL, 403),
        ("control", NONE, OWN, None),
        ("control", NONE, {**OWN, "origin": "http://localhost:8080"}, None),
        ("control", NONE, {**OWN, "origin": "http://localhost:9090"}, 403),
        ("control", NONE, {**OWN, "origin": "http://other.example"}, 403),
        ("control", NONE, {**OWN, "origin": "null"}, 403),
        ("control", NONE, {**OWN, "origin": "http://[localhost:8080"}, 403),
        ("control", NONE, {"host": "other.example", "x-mixedmode-control": "1"}, 421),
    ],
)
def test_a_request_is_allowed_by_its_token_or_else_by_the_headers_of_its_browser(
    kind: Kind, tokens: Tokens, headers: dict[str, str], status: int | None
) -> None:
    found = refusal(kind, headers, tokens)
    assert (None if found is None else found.status) == status
