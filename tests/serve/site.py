"""A server on a free port of this machine, whose job is a list of events; and a client for it."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.config import JobSpec
from mixedmode.driver.events import EpochCommitted
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site
from mixedmode.serve.control import Control
from mixedmode.serve.documents import manifest_document
from mixedmode.serve.live import LiveJob
from mixedmode.serve.metrics import JobMetrics
from mixedmode.serve.protocol import LimitedProtocol
from mixedmode.serve.server import Endpoint, Server
from tests.harness import ManualClock

NO_TOKEN_CONTROL = {"X-Mixedmode-Control": "1"}


def committed(epoch: int, **changes: Any) -> EpochCommitted:
    """An epoch of 100 records in 2 s, committed at `epoch` seconds; epoch 0 is backlog."""
    values: dict[str, Any] = {
        "epoch": Epoch(epoch),
        "is_backlog": epoch == 0,
        "strategy": "sorted" if epoch == 0 else "streaming",
        "records": 100,
        "rows_out": 10,
        "pairs": 10,
        "state_bytes": 1000,
        "spilled_runs": 0,
        "migration_seconds": 0.1,
        "watermark_us": None,
        "records_late": 0,
        "records_ahead": 0,
        "records_skipped": 0,
        "seconds": 2.0,
        "created_ms": 1000 * epoch,
        "profile": {"fold": 1.5, "driver: commit": 0.25},
    }
    stored = changes.get("manifest")
    if stored is not None:
        values |= {"rows_read": stored.rows_read, "joins": stored.joins}
    return EpochCommitted(**(values | changes))


def job_spec(folder: Path, *, mode: str = "mixed") -> JobSpec:
    """A job with one keyed step."""
    checkpointing = {} if mode == "batch" else {"checkpointing": {"dir": str(folder / "checkpoints")}}
    (folder / "in").mkdir(exist_ok=True)
    document = {
        "name": "totals",
        "execution": {"runtime-mode": mode, **checkpointing},
        "sources": {"sales": {"format": "json", "path": str(folder / "in"), "schema": "shop string, price long"}},
        "steps": [{"key-by": ["shop"], "aggregate": {"total": "sum(price)"}}],
        "sink": {"format": "console"},
    }
    return JobSpec.model_validate(document)


@dataclass
class Answer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        found: str = self.json["error"]["message"]
        return found


@dataclass
class Client:
    """Sends requests to a server."""

    port: int
    tls: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, path: str, method: str = "GET", body: bytes | Mapping[str, Any] | None = None, **headers: str | None
    ) -> Answer:
        """Send one request.  headers: with _ for -; None removes one."""
        connection = self.connection()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, Mapping):
            body, named = json.dumps(body).encode(), {"content-type": "application/json", **named}
        sent = {name: value for name, value in {**self.headers, **named}.items() if value is not None}
        try:
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.tls)


@dataclass
class Served:
    """A server, and what it serves."""

    client: Client
    job: LiveJob
    metrics: JobMetrics
    control: Control
    clock: ManualClock
    server: Server

    def tell(self, *events: Any) -> None:
        """Let the job have these events."""
        for event in events:
            self.job(event)
            self.metrics(event)


@contextmanager
def served(
    folder: Path,
    *,
    spec: JobSpec | None = None,
    tokens: Tokens = Tokens(),  # noqa: B008 - frozen
    cert: Path | None = None,
    key: Path | None = None,
    tls: ssl.SSLContext | None = None,
    protocol: type[LimitedProtocol] = LimitedProtocol,
    savepoints: str | None = None,
    stored: Sequence[Manifest] = (),
) -> Iterator[Served]:
    """Serve a job of this spec during the block.  stored: the manifests in its checkpoint folder."""
    spec, clock = spec or job_spec(folder), ManualClock()
    job = LiveJob(spec, clock, lambda: [manifest_document(manifest) for manifest in stored])
    metrics = JobMetrics(spec, clock)
    control = Control(spec, threading.Event(), threading.Event(), savepoints, clock, mark=job.mark)
    site = Site([job], metrics=metrics, control=control)
    job.listeners.append(site.hub.publish)
    endpoint = Endpoint(parse_address("0"), tokens, cert, key)
    with Server(site, endpoint, protocol) as server:
        yield Served(Client(server.port, tls), job, metrics, control, clock, server)
