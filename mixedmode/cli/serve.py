"""`mixedmode run --serve` and `mixedmode serve`: the HTTP server beside a run, or over checkpoint folders."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from mixedmode.cli.consoles import error_console
from mixedmode.config import JobSpec
from mixedmode.config.serve import ServeSpec
from mixedmode.driver.run import RunOptions
from mixedmode.errors import InvalidJobError
from mixedmode.queryable import LEASE_SECONDS
from mixedmode.queryable.kept import KeptState
from mixedmode.serve.beside import parts_needed, served


def settings_of(
    spec: JobSpec, address: str | None, cert: Path | None, key: Path | None, savepoints: str | None
) -> ServeSpec | None:
    """Return the server's settings of the job file and of the command line, which wins; None for no server."""
    if address is None and spec.serve is None:
        if cert or key or savepoints:
            msg = "--cert, --key and --savepoints are options of the server: give --serve, or `serve` in the job file"
            raise InvalidJobError(msg)
        return None
    given = {"listen": address, "cert": cert and str(cert), "key": key and str(key), "savepoints": savepoints}
    own = {} if spec.serve is None else spec.serve.model_dump()
    return ServeSpec.model_construct(
        **{"cert": None, "key": None, "savepoints": None}
        | own
        | {name: value for name, value in given.items() if value is not None}
    )


def beside_run(spec: JobSpec, options: RunOptions, settings: ServeSpec) -> AbstractContextManager[RunOptions]:
    """Serve during the block, and say where. Return the options of the run."""
    return served(spec, options, settings, _say)


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
    with parts_needed():
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
