"""`mixedmode services`: runs Kafka and PostgreSQL until Ctrl-C. Data are kept between starts."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from mixedmode.cli.messages import errors_as_messages


def services(
    folder: Annotated[Path, typer.Option(help="Where data and logs are kept.")] = Path("run/services"),
) -> None:
    """Start Kafka and PostgreSQL on this machine, until Ctrl-C."""
    from mixedmode_services.run import run_services
    from mixedmode_services.terminal import in_foreground

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with errors_as_messages(), in_foreground():
        run_services(folder, stop)
