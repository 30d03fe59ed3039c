"""An S3 server on this machine, and what a program needs in its environment to find it.

obstore opens a store once a process and URL, so every test has a bucket of its own.
"""

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

#: a store that is away is away for good in a test, and is not waited for
RETRY_SECONDS = 3.0

_serial = itertools.count()


@dataclass
class S3Server:
    """A running server."""

    port: int
    buckets: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def new_bucket(self) -> str:
        """The URL of a new, empty bucket."""
        name = f"bucket-{os.getpid()}-{next(_serial)}"
        with urlopen(Request(f"{self.url}/{name}", method="PUT")) as answer:
            assert answer.status == 200, answer.status
        self.buckets.append(name)
        return f"s3://{name}"


def environment(endpoint: str) -> dict[str, str]:
    """Return the environment variables of obstore and mixedmode for a server at `endpoint`."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_TIMEOUT": "2s",  # a busy machine needs more than one second to take the parts of a large object
        "MIXEDMODE_STORE_RETRY_SECONDS": str(RETRY_SECONDS),
    }


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with conditional puts, in a thread of this process; what it holds is in memory."""
    server = _server(0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield S3Server(server.port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serve_forever(port: int, before: Callable[[int], None]) -> None:
    """Be a server in this process until it is killed. `before` is called before each answer, with the bytes given."""
    _server(port, before).serve_forever()


def _server(port: int, before: Callable[[int], object] = lambda _bytes: None) -> "BaseWSGIServer":
    """Return moto's server, whose conditional puts exclude each other, as those of S3 do: moto looks, and then puts."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    log = logging.getLogger("werkzeug")
    log.setLevel(logging.ERROR)
    log.propagate = False  # its errors, after which clients ask again, are no messages of the code under test
    inner, one_at_a_time = DomainDispatcherApplication(create_backend_app), Lock()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        before(int(environ.get("CONTENT_LENGTH") or 0))
        with one_at_a_time if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            answered: Iterable[bytes] = inner(environ, start)
        return answered

    return make_server("127.0.0.1", port, answer, threaded=True, request_handler=MotoRequestHandler)
