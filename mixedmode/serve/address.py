"""The address of the server, and the requirements of that address. Pure.

A loopback address can be reached only from this machine, so it requires nothing. Any other address requires a token
and TLS.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mixedmode.config.outside_texts import whole_number
from mixedmode.errors import InvalidJobError

__all__ = ["CONTROL_TOKEN", "READ_TOKEN", "TOKEN_LENGTH_MIN", "Address", "Tokens", "check_exposed", "parse_address"]

READ_TOKEN, CONTROL_TOKEN = "MIXEDMODE_SERVE_READ_TOKEN", "MIXEDMODE_SERVE_CONTROL_TOKEN"
TOKEN_LENGTH_MIN = 16
_LOCALHOST = "127.0.0.1"
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address, without the brackets of IPv6, and a port; port 0 is any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the address."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of requests that read and of requests that control; None if not set. A control token reads, too."""

    read: str | None = None
    control: str | None = None

    @property
    def is_any_set(self) -> bool:
        """Return whether at least one token is set."""
        return self.read is not None or self.control is not None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str) -> Address:
    """Return the address of `[HOST:]PORT`; the host is 127.0.0.1 by default.

    >>> parse_address("8080"), parse_address("[::1]:80")
    (Address(host='127.0.0.1', port=8080), Address(host='::1', port=80))
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    number = whole_number(port)
    is_valid_host = (":" not in host or bare != host) and bare == bare.strip() and (bare != "" or text == port)
    if number is None or number > _PORT_MAX or not is_valid_host:
        msg = (
            "the address of the server is not one: write a port, or a host and a port, such as 8080, 0.0.0.0:8080 or "
            f"[::]:8080. found={text[:200]}"
        )
        raise InvalidJobError(msg)
    return Address(bare or _LOCALHOST, number)


def read_tokens(environment: Mapping[str, str]) -> Tokens:
    """Return the tokens in the environment; an empty variable counts as not set."""
    found = {name: environment.get(name) or None for name in (READ_TOKEN, CONTROL_TOKEN)}
    for name, token in found.items():
        if token is not None and not (len(token) >= TOKEN_LENGTH_MIN and token.isascii() and token.isprintable()):
            msg = (
                f"a token of the server must have at least {TOKEN_LENGTH_MIN} printable ASCII characters, so that "
                "nobody can guess it. Set the output of `openssl rand -hex 32`. "
                f"variable={name}"
            )
            raise InvalidJobError(msg)
    tokens = Tokens(found[READ_TOKEN], found[CONTROL_TOKEN])
    if tokens.is_any_set and tokens.read == tokens.control:
        msg = (
            "the token that reads is also the one that controls, so everybody who may read could stop the job. Set "
            f"two different tokens. variables={READ_TOKEN}, {CONTROL_TOKEN}"
        )
        raise InvalidJobError(msg)
    return tokens


def check_exposed(address: Address, tokens: Tokens, *, cert: Path | None, key: Path | None) -> None:
    """Raise InvalidJobError if the address can be reached from other machines, and a token or TLS is missing."""
    if (cert is None) != (key is None):
        msg = f"TLS needs a certificate and its key: name both files. certificate={cert or 'none'}, key={key or 'none'}"
        raise InvalidJobError(msg)
    if address.is_loopback:
        return
    missing = [] if tokens.read is not None else [f"a token that reads, in the variable {READ_TOKEN}"]
    missing += [] if cert is not None else ["TLS: a certificate and its key, with --cert and --key"]
    if missing:
        msg = (
            "other machines can reach this address, so the server does not start without a token and TLS. Missing: "
            f"{'; '.join(missing)}. Or listen on 127.0.0.1, the default, and let a proxy or an SSH tunnel reach it. "
            f"address={address}"
        )
        raise InvalidJobError(msg)
