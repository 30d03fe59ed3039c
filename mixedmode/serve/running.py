"""A server beside a run of a job: what the run needs as observers and options, and the server itself."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config import JobSpec
from mixedmode.driver.events import Observer
from mixedmode.queryable.kept import KeptState
from mixedmode.serve.app import Site
from mixedmode.serve.control import Control
from mixedmode.serve.documents import Document
from mixedmode.serve.folders import Manifests
from mixedmode.serve.live import LiveJob
from mixedmode.serve.metrics import JobMetrics
from mixedmode.serve.server import Endpoint, Server

__all__ = ["RunServer", "server_of_run"]


@dataclass(frozen=True, slots=True)
class RunServer:
    """A server that has not started, and the observers that the run passes its events to."""

    server: Server
    observers: Sequence[Observer]


def server_of_run(
    spec: JobSpec,
    endpoint: Endpoint,
    *,
    stop: threading.Event,
    drain: threading.Event,
    savepoints: str | None = None,
) -> RunServer:
    """Return the server of a run.  stop, drain: those of its RunOptions; savepoints: the folder of savepoints."""
    job = LiveJob(spec, stored=_stored(spec))
    metrics = JobMetrics(spec)
    control = Control(spec, stop, drain, savepoints, mark=job.mark)
    folder = spec.execution.checkpointing.dir
    states = {} if folder is None else {job.id: KeptState(folder)}
    site = Site([job], metrics=metrics, control=control, states=states)
    job.listeners.append(site.hub.publish)
    return RunServer(Server(site, endpoint), [job, metrics])


def _stored(spec: JobSpec) -> Callable[[], Sequence[Document]]:
    folder = spec.execution.checkpointing.dir
    if folder is None:
        return lambda: ()
    return Manifests(CheckpointLog(ObjectStore(folder))).documents
