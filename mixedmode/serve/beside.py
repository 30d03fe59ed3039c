"""The HTTP server beside a run, for the command line and for `Job.run`. Its packages are loaded only to serve."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path as FilePath

from mixedmode.config import JobSpec
from mixedmode.config.document import Path, path_text
from mixedmode.config.load import checked_section
from mixedmode.config.serve import ServeSpec
from mixedmode.config.spelling import did_you_mean
from mixedmode.driver import run
from mixedmode.driver.events import Observer
from mixedmode.driver.run import RunOptions, Until
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command
from mixedmode.plan.keyed_operators import Where

__all__ = ["parts_needed", "run_served", "served"]

_logger = logging.getLogger(__name__)
_PARTS = ("anyio", "prometheus_client", "starlette", "uvicorn", "uvloop")


def run_served(  # what Job.run is given
    spec: JobSpec,
    where: Where,
    until: str,
    observers: Sequence[Observer],
    stop: threading.Event | None,
    address: str | int | None,
) -> None:
    """Run a job until it ends, with a server beside it if `address` or the job names one."""
    known = [one.value for one in Until]
    if until not in known:
        near = did_you_mean(str(until), known)
        msg = f"Job.run: until cannot be {until}.{near} Known values: {', '.join(known)}."
        raise InvalidJobError(msg)
    settings = spec.serve
    if address is not None:
        own = {} if settings is None else settings.model_dump(by_alias=True)
        settings = checked_section(ServeSpec, {**own, "listen": address}, place="Job.run", name=_argument)
    with ExitStack() as stack:
        options = RunOptions(until=Until(until), observers=observers, stop=stop)
        if settings is not None:
            options = stack.enter_context(served(spec, options, settings, _logger.info))
        run.run_job(spec, where, options)


def _argument(path: Path) -> str:
    """Return the name of the argument that a setting comes from."""
    return "serve" if path == ("listen",) else f"serve.{path_text(path)}"


@contextmanager
def served(
    spec: JobSpec, options: RunOptions, settings: ServeSpec, say: Callable[[str], object]
) -> Iterator[RunOptions]:
    """Serve during the block, and return the options with which the run tells the server its events."""
    with parts_needed():
        from mixedmode.serve.running import server_of_run  # noqa: PLC0415
        from mixedmode.serve.server import Endpoint  # noqa: PLC0415
    cert, key = (None if file is None else FilePath(file) for file in (settings.cert, settings.key))
    endpoint = Endpoint.of(settings.listen, cert=cert, key=key)
    stop, drain = options.stop or threading.Event(), options.drain or threading.Event()
    made = server_of_run(spec, endpoint, stop=stop, drain=drain, savepoints=settings.savepoints)
    with made.server as server:
        say(f"serving {spec.name} at {server.url}")
        yield replace(options, stop=stop, drain=drain, observers=[*options.observers, *made.observers])


@contextmanager
def parts_needed() -> Iterator[None]:
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
