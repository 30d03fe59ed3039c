"""Both servers over one folder, until somebody asks to stop.

The environment variables that a shell needs are printed, and written to `services.env` in the servers' folder.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mixedmode.errors import RetryableError
from mixedmode_services.kafka import KafkaBroker, kafka_broker
from mixedmode_services.postgres import PostgresServer, find_binaries
from mixedmode_services.server import free_port

KAFKA_PORT, POSTGRES_PORT = 9092, 5432  # the usual ports
ENVIRONMENT = "services.env"


def run_services(folder: Path, stop: threading.Event) -> None:
    """Start both servers, print their addresses, wait for `stop`, and stop them.
    Without PostgreSQL, run Kafka alone.
    """
    with _only_one(folder), ExitStack() as running:
        found: dict[str, str] = {}
        _say("Kafka starts; the first time its jars are fetched, 45 MB")
        kafka_broker()
        broker = running.enter_context(KafkaBroker(folder / "kafka", port=_port("Kafka", KAFKA_PORT)))
        found["KAFKA_SERVERS"] = broker.bootstrap_servers
        _say(f"Kafka       bootstrap servers: {broker.bootstrap_servers}")
        try:
            find_binaries()
        except RetryableError as error:
            _say(f"PostgreSQL  not started: {error}")
        else:
            server = PostgresServer(folder / "postgres", port=_port("PostgreSQL", POSTGRES_PORT))
            running.enter_context(server)
            found["POSTGRES_URL"] = server.url()
            _say(f"PostgreSQL  url: {server.url()}")
        environment = folder / ENVIRONMENT
        environment.touch(mode=0o600)  # the file contains the password
        environment.write_text("".join(f"export {name}='{value}'\n" for name, value in found.items()), encoding="utf-8")
        running.callback(environment.unlink)
        _say(f"In another shell:  . {environment}    sets {', '.join(found)}")
        _say(f"Data and logs are in {folder}. Ctrl-C stops.")
        stop.wait()
        _say("stopping")
    _say("stopped; data are kept")


def _port(name: str, usual: int) -> int:
    port = free_port(usual)
    if port != usual:
        _say(f"{name}: something else listens at port {usual}, so it takes {port}")
    return port


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, because two servers must not use the same data."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = (
                "services already run over this folder, and two cannot share it. Use those, stop them first, or name "
                f"another folder with --folder. folder={folder}, addresses={folder / ENVIRONMENT}"
            )
            raise RetryableError(msg) from None
        yield


def _say(text: str) -> None:
    print(text, flush=True)
