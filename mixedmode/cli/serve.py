"""`mixedmode run --serve` and `mixedmode serve`: the HTTP server beside a run, or over checkpoint folders."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mixedmode.cli.display import error_console
from mixedmode.config import JobSpec
from mixedmode.driver.run import RunOptions
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command
from mixedmode.queryable import LEASE_SECONDS
from mixedmode.queryable.kept import KeptState

_PARTS = ("prometheus_client", "starlette", "uvicorn")


@contextmanager
def beside_run(
    spec: JobSpec,
    options: RunOptions,
    address: str,
    cert: Path | None,
    key: Path | None,
    savepoints: str | None,
) -> Iterator[RunOptions]:
    """Serve during the block, and return the options with which the run tells the server its events."""
    with _parts_needed():
        from mixedmode.serve.running import server_of_run
        from mixedmode.serve.server import Endpoint
    endpoint = Endpoint.of(address, cert=cert, key=key)
    assert options.stop is not None
    assert options.drain is not None
    made = server_of_run(spec, endpoint, stop=options.stop, drain=options.drain, savepoints=savepoints)
    with made.server as server:
        _say(f"serving {spec.name} at {server.url}")
        yield replace(options, observers=[*options.observers, *made.observers])


def serve_folders(
    places: Sequence[str],
    address: str,
    cert: Path | None,
    key: Path | None,
    stop: threading.Event,
    *,
    has_leases: bool = True,
) -> None:
    """Serve checkpoint folders until `stop` is set.  has_leases: the jobs keep the checkpoints that are read."""
    with _parts_needed():
        from mixedmode.serve.app import Site
        from mixedmode.serve.folders import open_folders
        from mixedmode.serve.server import Endpoint, Server
    endpoint, jobs = Endpoint.of(address, cert=cert, key=key), open_folders(places)
    seconds = LEASE_SECONDS if has_leases else 0
    states = {job.id: KeptState(job.manifests.log.store.url, lease_seconds=seconds) for job in jobs}
    with Server(Site(jobs, states=states), endpoint) as server:
        _say(f"serving {', '.join(job.id for job in jobs)} at {server.url}")
        stop.wait()


def _say(text: str) -> None:
    error_console().print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _parts_needed() -> Iterator[None]:
    """Raise InvalidJobError with the command that installs the extra, if an import of the block does not find it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        msg = (
            "the server needs packages that are not installed. Install them: "
            f"{install_command('serve')}. missing={error.name}"
        )
        raise InvalidJobError(msg) from error
