"""The commands around running jobs: start, status, stop, logs, list, deploy, monitoring; reset, for a new start."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mixedmode.cli.messages import errors_as_messages, screen_print
from mixedmode.cli.options import JobFile, Overrides
from mixedmode.installed import python_command
from mixedmode.log import FORMAT_VARIABLE, LEVEL_VARIABLE

__all__ = ["NOT_RUNNING", "add_background_commands"]

NOT_RUNNING = 3  # the exit code of `status` for a job that does not run, as that of systemctl
_OTHER_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_background_commands(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(context_settings=_OTHER_OPTIONS)(start)
    app.command()(status)
    app.command()(stop)
    app.command()(logs)
    app.command(name="list")(list_jobs)
    app.command(context_settings=_OTHER_OPTIONS)(deploy)
    app.command()(reset)
    app.command()(monitoring)


def start(
    context: typer.Context,
    job: JobFile,
    overrides: Overrides = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds in which an early end is reported.")] = 3.0,
) -> None:
    """Run a job in the background. All options of `run` are possible. Its log is in the checkpoint folder."""
    with errors_as_messages():
        from mixedmode.cli.background import start_job
        from mixedmode.cli.doctor import require_environment
        from mixedmode.cli.job_files import checked_job

        is_logged = any(os.environ.get(name) for name in (FORMAT_VARIABLE, LEVEL_VARIABLE))
        given = [str(job), *_as_options(overrides), *context.args]
        _check_options(context, given)
        spec = checked_job(job, overrides or ()).spec
        require_environment([])
        given += () if is_logged or _has_log_options(given) else ("--log-format", "text")
        screen_print(start_job(spec, given, wait_seconds=wait))


def _check_options(context: typer.Context, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Return the values of the arguments of `run`. Raise a usage error for an option that it does not have."""
    assert context.parent is not None
    group: Any = context.parent.command
    with group.get_command(context.parent, "run").make_context("run", list(arguments), parent=context.parent) as run:
        given: Mapping[str, Any] = run.params
    return given


def _has_log_options(given: Sequence[str]) -> bool:
    return any(text.partition("=")[0] in {"--log-format", "--log-level"} for text in given)


def status(
    job: JobFile,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object of JSON.")] = False,
) -> None:
    """Tell whether a job runs in the background. Also its newest checkpoint; exit code 3 if it does not run."""
    with errors_as_messages():
        from mixedmode.cli.background import status_of
        from mixedmode.clock import SystemClock

        found = status_of(_spec(job, overrides))
        if as_json:
            sys.stdout.write(json.dumps(found.document()) + "\n")
        else:
            screen_print("\n".join(found.lines(SystemClock().now_ms())))
        if not found.is_running:
            raise typer.Exit(NOT_RUNNING)


def stop(
    job: JobFile,
    overrides: Overrides = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="FOLDER", help="Then keep the checkpoint as a savepoint here.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for the end.")] = 300.0,
) -> None:
    """Stop a job in the background. Finish its epoch first, and wait until it has ended."""
    with errors_as_messages():
        from mixedmode.cli.background import stop_job

        spec = _spec(job, overrides)
        if savepoint is not None:
            from mixedmode.driver.savepoints import folder_for_savepoint

            folder_for_savepoint(spec, savepoint)  # its error comes before the job is stopped
        screen_print(stop_job(spec, timeout_seconds=timeout))
        if savepoint is not None:
            from mixedmode.driver.savepoints import take_savepoint

            screen_print(f"savepoint of epoch {take_savepoint(spec, savepoint).epoch}: {savepoint}")


def logs(
    job: JobFile,
    overrides: Overrides = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 20,
) -> None:
    """Print the end of the log of a job in the background."""
    with errors_as_messages():
        from mixedmode.cli.background import follow_log, last_lines, size_of
        from mixedmode.cli.processes import ProcessPlace

        log = ProcessPlace.of(_spec(job, overrides)).log
        if not log.exists() and not follow:
            from mixedmode.errors import InvalidJobError

            msg = (
                "there is no log: the job was never started with `mixedmode start`, or its log was deleted. Only the "
                f"next start makes a new one. log={log}"
            )
            raise InvalidJobError(msg)
        place = size_of(log)
        for line in last_lines(log, count, ends=place):
            _write(line + "\n")
        if follow:
            follow_log(log, place, _write, goes_on=lambda: True)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def list_jobs() -> None:
    """List the jobs that this machine has run in the background."""
    with errors_as_messages():
        from mixedmode.cli.background import listed_jobs

        screen_print(listed_jobs())


class Manager(StrEnum):
    """A program that runs jobs as services."""

    SYSTEMD = "systemd"
    KUBERNETES = "kubernetes"


def deploy(
    context: typer.Context,
    manager: Annotated[Manager, typer.Argument(help="What runs the job.", show_default=False)],
    job: JobFile,
    overrides: Overrides = None,
    image: Annotated[
        str, typer.Option("--image", help="Kubernetes: the image, with mixedmode and Java in it.")
    ] = "mixedmode:latest",
) -> None:
    """Print a systemd unit or a Kubernetes manifest for a job. Further options are those of `run`."""
    with errors_as_messages():
        from mixedmode.cli.deploy import kubernetes_manifest, systemd_unit
        from mixedmode.cli.serve import settings_of

        options = [*_as_options(overrides), *context.args]
        given = _check_options(context, [str(job), *options])
        spec = _spec(job, overrides)
        if manager is Manager.SYSTEMD:
            sys.stdout.write(systemd_unit(spec, job, python_command(), options))
            return
        server = settings_of(spec, given["serve"], given["cert"], given["key"], given["savepoint_folder"])
        text = job.read_text(encoding="utf-8")
        sys.stdout.write(kubernetes_manifest(spec, text, image, options, overrides or (), server))


def _as_options(overrides: Sequence[str] | None) -> Sequence[str]:
    return [part for text in overrides or () for part in ("--set", text)]


def _spec(job: Path, overrides: Sequence[str] | None) -> Any:
    from mixedmode.config import load_job

    return load_job(job, overrides or ()).spec


def reset(
    job: JobFile,
    to: Annotated[
        str, typer.Option("--to", metavar="WHEN", help="earliest, latest, a time with its offset, or offsets as JSON.")
    ],
    overrides: Overrides = None,
    suffix: Annotated[
        str | None, typer.Option("--suffix", help="Added to folders, tables and topics; the next free _2, _3, ....")
    ] = None,
) -> None:
    """Write a job file that starts again at a point of the input. Its folders are new, and nothing is deleted."""
    with errors_as_messages():
        from mixedmode.cli.job_files import checked_job
        from mixedmode.cli.reset import write_reset

        screen_print(write_reset(checked_job(job, overrides or ()).spec, job, to, suffix))


def monitoring(
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are written.")],
) -> None:
    """Write a Grafana dashboard and alert rules for Prometheus. They show the metrics of `run --serve`."""
    with errors_as_messages():
        from mixedmode.serve.monitoring import write_monitoring_files

        for path in write_monitoring_files(directory):
            screen_print(f"{path}")
