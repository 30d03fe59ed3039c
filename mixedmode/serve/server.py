"""The thread of the server: a socket that is bound before the job starts, and uvicorn in an event loop of uvloop."""

import os
import socket
import ssl
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
import uvloop

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.secrets import resolve
from mixedmode.serve.accepting import AcceptingServer
from mixedmode.serve.address import (
    CONTROL_TOKEN,
    READ_TOKEN,
    Address,
    Tokens,
    check_exposed,
    parse_address,
    read_tokens,
)
from mixedmode.serve.app import Site, application
from mixedmode.serve.protocol import LimitedProtocol

__all__ = ["Endpoint", "Server"]

_JOIN_SECONDS = 5.0
_BACKLOG = 256
#: a thread of the job gives the interpreter's lock to the server after so long; Python's 5 ms would be in each request,
#: several times
_SWITCH_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen at and its credentials, checked, so that a server can start."""

    address: Address
    tokens: Tokens
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, text: str, *, cert: Path | None, key: Path | None, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the endpoint of `[HOST:]PORT`.  Raises InvalidJobError if it is not one, or not safe."""
        address, tokens = parse_address(text), read_tokens(environment)
        check_exposed(address, tokens, cert=cert, key=key)
        for name in (READ_TOKEN, CONTROL_TOKEN):
            if environment is os.environ and environment.get(name):
                resolve(f"${{env:{name}}}")  # so that no answer and no log line shows it
        return cls(address, tokens, cert, key)


@dataclass
class Server:
    """A server in a thread of its own, as a context manager. It accepts connections from the beginning of the block."""

    site: Site
    endpoint: Endpoint
    protocol: type[LimitedProtocol] = LimitedProtocol
    _socket: socket.socket | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        endpoint = self.endpoint
        tls = {} if endpoint.cert is None else {"ssl_certfile": endpoint.cert, "ssl_keyfile": endpoint.key}
        config = uvicorn.Config(
            application(self.site, endpoint.tokens),
            http=self.protocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # a client could fill the log with broken requests
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            **tls,  # type: ignore[arg-type]
        )
        self._socket = _bound(endpoint.address)
        self._bound_port = int(self._socket.getsockname()[1])
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            msg = (
                "the certificate or its key cannot be used for TLS. Name a certificate chain and its key, both as PEM "
                f"and without a password. certificate={endpoint.cert}, key={endpoint.key}, cause={error}"
            )
            raise InvalidJobError(msg) from error
        self._server = AcceptingServer(config, self.protocol)
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(min(_SWITCH_SECONDS, self._switch_seconds))
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._thread.start()
        for state in self.site.states.values():
            state.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.site.hub.close()
        self._server.should_exit = True
        self._thread.join(_JOIN_SECONDS)
        sys.setswitchinterval(self._switch_seconds)
        for state in self.site.states.values():
            state.close()

    def wait(self) -> None:
        """Wait until the server has ended."""
        self._thread.join()

    @property
    def port(self) -> int:
        """The port, also if any free port was asked for."""
        return self._bound_port

    @property
    def url(self) -> str:
        """The URL of the page."""
        scheme = "http" if self.endpoint.cert is None else "https"
        return f"{scheme}://{Address(self.endpoint.address.host, self.port)}/"

    def _run(self) -> None:
        assert self._socket is not None
        uvloop.run(self._server.serve(sockets=[self._socket]))


def _bound(address: Address) -> socket.socket:
    """Return a listening socket. Connections wait in it until the server runs."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address.host, address.port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        msg = (
            "the server cannot listen on its address: another process may have the port, or no interface of this "
            f"machine has the address. Choose another one. address={address}, cause={error.strerror}"
        )
        raise RetryableError(msg) from error
    return bound
