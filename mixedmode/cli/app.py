"""The commands. Each one parses its arguments, calls the library, and turns our errors into a message and an exit code.

Exit codes: 0 done, 2 wrong job file or input, 1 a failed run, 130 stopped at once by a second Ctrl-C.
"""

import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixedmode.cli.background_commands import add_background_commands
from mixedmode.cli.commands import add_commands
from mixedmode.cli.doctor import doctor_report, require_environment
from mixedmode.cli.import_state import import_state
from mixedmode.cli.messages import errors_as_messages, screen_print
from mixedmode.cli.options import JobFile, Overrides
from mixedmode.cli.savepoint import savepoints
from mixedmode.cli.signals import stop_on_signals
from mixedmode.cli.state_format import StateFormat
from mixedmode.log import FORMAT_VARIABLE, LEVEL_VARIABLE, LogFormat, LogLevel

if TYPE_CHECKING:
    from mixedmode.config import JobSpec

app = typer.Typer(
    name="mixedmode",
    help="Backfill, then live: one stateful job over history and live data, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(savepoints)

Folder = Annotated[str, typer.Argument(help="The folder, or its URL (s3://...).", show_default=False)]
Certificate = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE", help="The server's certificate for TLS, as PEM.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of the certificate, as PEM.")]
NoLease = Annotated[bool, typer.Option("--no-lease", help="Write nothing: the job may drop the checkpoint meanwhile.")]


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001  # typer calls it
    if is_wanted:
        from importlib.metadata import version

        screen_print(f"mixedmode {version('mixedmode')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    """Backfill, then live: one stateful job over history and live data, on Spark."""
    del version


@app.command()
def run(  # noqa: PLR0913, PLR0917  # one argument for each option
    job: JobFile,
    overrides: Overrides = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when all existing input is processed.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="As --until-idle, then end the input: all open windows and timers fire.")
    ] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", envvar=FORMAT_VARIABLE, help="Log lines on standard error, without the display."),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="The same, from this level on; info by default."),
    ] = None,
    serve: Annotated[
        str | None, typer.Option("--serve", metavar="[HOST:]PORT", help="Serve a page, metrics and an API by HTTP.")
    ] = None,
    cert: Certificate = None,
    key: Key = None,
    savepoint_folder: Annotated[
        str | None, typer.Option("--savepoints", metavar="FOLDER", help="Where the server puts savepoints.")
    ] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Send each epoch as a trace of OpenTelemetry, by OTLP over HTTP.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Compute the windows from here to --to again.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="The end of the range of --from.")] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", metavar="NAME", help="With --from: only this output, repeatable.")
    ] = None,
) -> None:
    """Run a job: backlog, flip, live. Ctrl-C or SIGTERM finishes the epoch and exits; starting again resumes."""
    with errors_as_messages(log_format, log_level):
        from mixedmode.cli.job_files import checked_job
        from mixedmode.driver.early import begin_spark

        loaded = checked_job(job, overrides or ())
        begin_spark(loaded.spec, runs=True)
        if start is not None or end is not None or outputs:
            from mixedmode.cli.backfill import run_backfill

            run_backfill(loaded, start, end, outputs or (), alone=not (until_idle or drain or serve or traces))
            return
        from mixedmode.cli.serve import beside_run, settings_of

        server = settings_of(loaded.spec, serve, cert, key, savepoint_folder)
        _check_may_run(loaded.spec)
        from mixedmode.cli.display import screen
        from mixedmode.driver.run import RunOptions, Until, run_job

        until = Until.DRAINED if drain else Until.IDLE if until_idle else Until.STOPPED
        options = RunOptions(until=until, stop=stop_on_signals(), drain=threading.Event())
        with ExitStack() as stack:
            if traces:
                from mixedmode.driver.traces import exported_traces

                options = replace(options, observers=[stack.enter_context(exported_traces(loaded.spec.name))])
            if server is not None:
                options = stack.enter_context(beside_run(loaded.spec, options, server))
            if log_format or log_level:
                run_job(loaded.spec, loaded.where, options)
                return
            with screen(loaded.spec) as display:
                run_job(loaded.spec, loaded.where, replace(options, observers=[display, *options.observers]))
            display.print_summary()


def _check_may_run(spec: "JobSpec") -> None:
    """Raise an error if this machine cannot run a job, or already runs it in the background."""
    from mixedmode.cli.processes import ProcessPlace

    folder = spec.execution.checkpointing.dir
    if folder is not None:
        ProcessPlace.of(spec).check_free()
    require_environment([] if folder is None or "://" in folder else [Path(folder)])


@app.command()
def validate(
    job: JobFile,
    overrides: Overrides = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also ask Kafka for its topics, and databases for a login.")
    ] = False,
) -> None:
    """Check a job file, its SQL and its columns. Nothing is run."""
    with errors_as_messages():
        from mixedmode.cli.job_files import checked_job
        from mixedmode.driver.early import begin_spark

        loaded = checked_job(job, overrides or ())
        begin_spark(loaded.spec, runs=False)
        require_environment([])
        from mixedmode.config.variables import unset_variables
        from mixedmode.driver.planning import plan_job

        planned = plan_job(loaded.spec, loaded.where, connects=connect)
        for path, name in unset_variables(loaded.spec):
            text = f"a run needs a variable of the environment that is not set here. variable={name}"
            screen_print(f"{loaded.where(*path)}: {text}")
        for name, result in planned.plan.results.items():
            columns = ", ".join(f"{field.name} {field.type}" for field in result.fields)
            screen_print(f"{job} is valid. Result{f' {name}' if name else ''}: {columns}")


@app.command()
def explain(
    job: JobFile,
    overrides: Overrides = None,
    dot: Annotated[bool, typer.Option("--dot", help="Only draw the graph, in the DOT language of Graphviz.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Only draw the graph, as a Mermaid flowchart.")] = False,
) -> None:
    """Show the plan of a job. It has watermarks, stages, state, strategies, outputs, and what is committed when."""
    with errors_as_messages():
        from mixedmode.cli.job_files import checked_job
        from mixedmode.driver.early import begin_spark

        if dot and mermaid:
            msg = "give --dot or --mermaid: each is the whole output"
            raise typer.BadParameter(msg)
        loaded = checked_job(job, overrides or ())
        if dot or mermaid:
            from mixedmode.plan.drawing import as_dot, as_mermaid

            screen_print("\n".join((as_dot if dot else as_mermaid)(loaded.spec)))
            return
        begin_spark(loaded.spec, runs=False)
        require_environment([])
        from mixedmode.driver.planning import plan_job
        from mixedmode.plan.explain import explain_plan

        planned = plan_job(loaded.spec, loaded.where)
        screen_print(explain_plan(loaded.spec, planned.plan, cores=planned.cores))


@app.command()
def rescale(
    job: JobFile,
    subtasks: Annotated[
        int | None, typer.Argument(metavar="N", help="How many subtasks every keyed step is to have.")
    ] = None,
    overrides: Overrides = None,
    step: Annotated[str | None, typer.Option("--step", metavar="NAME", help="Only this step.")] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Withdraw all that was asked for: the job file, or the autoscaler, decides.")
    ] = False,
) -> None:
    """Change the parallelism of a running job. It changes in the next epoch. Give the --set of its start."""
    with errors_as_messages():
        from mixedmode.config import load_job
        from mixedmode.driver.rescale_requests import ask_to_rescale

        if (subtasks is None) != reset or (reset and step is not None):
            msg = "give either a number of subtasks, with --step if you like, or --reset alone"
            raise typer.BadParameter(msg)
        screen_print(str(ask_to_rescale(load_job(job, overrides or ()).spec, subtasks, step=step)))


@app.command()
def pause(job: JobFile, overrides: Overrides = None) -> None:
    """Pause a job after its epoch, until it is resumed. It keeps its position; a new start of it is paused, too."""
    with errors_as_messages():
        from mixedmode.config import load_job
        from mixedmode.driver.pausing import ask_to_pause

        screen_print(ask_to_pause(load_job(job, overrides or ()).spec))


@app.command()
def resume(job: JobFile, overrides: Overrides = None) -> None:
    """Let a paused job go on from its position."""
    with errors_as_messages():
        from mixedmode.config import load_job
        from mixedmode.driver.pausing import ask_to_resume

        screen_print(ask_to_resume(load_job(job, overrides or ()).spec))


@app.command()
def doctor() -> None:
    """Name what this machine lacks, and the command that fixes it."""
    raise typer.Exit(doctor_report([Path.cwd()]))


@app.command()
def checkpoints(
    directory: Folder,
    verify: Annotated[bool, typer.Option("--verify", help="Read all files of state; tell what is damaged.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Read the newest state; count its live entries.")] = False,
) -> None:
    """List the checkpoints in a folder. Show epochs, sizes, offsets, watermark, backlog flag, end of input, runs."""
    with errors_as_messages():
        from mixedmode.cli.checkpoints import checkpoint_report, verification_report

        screen_print(checkpoint_report(directory, counts=count))
        if verify:
            screen_print(verification_report(directory))


@app.command()
def table(
    directory: Folder,
    limit: Annotated[int, typer.Option(help="Rows to show; 0 shows all.", min=0)] = 20,
    files: Annotated[bool, typer.Option("--files", help="Print the files that count now, for other readers.")] = False,
) -> None:
    """Show the current table of an output. It has the newest row of each key, or all rows where they have none."""
    with errors_as_messages():
        from mixedmode.cli.table import files_report, table_report

        if files:
            sys.stdout.write(f"{files_report(directory)}\n")  # for programs: neither wrapped nor coloured
        else:
            screen_print(table_report(directory, limit))


@app.command()
def state(  # noqa: PLR0913, PLR0917  # one argument per option
    directory: Folder,
    step: Annotated[str | None, typer.Argument(metavar="STEP", help="A step; without it, all are listed.")] = None,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Only these keys; of several columns, a JSON array.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The part of the state, such as a map's name.")] = None,
    epoch: Annotated[int | None, typer.Option("--epoch", help="A checkpoint's epoch; by default the newest.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Keys to show; 0 shows all.")] = None,
    form: Annotated[StateFormat, typer.Option("--format", help="How to print the rows.")] = StateFormat.TABLE,
    prefix: Annotated[bool, typer.Option("--prefix", help="KEY has the first key columns only.")] = False,
    no_lease: NoLease = False,
) -> None:
    """Show the state of a step at one epoch. The job may be running; the folder may be a savepoint."""
    with errors_as_messages():
        from mixedmode.cli.state import print_state

        print_state(
            directory,
            step,
            keys or (),
            form=form,
            name=name,
            epoch=epoch,
            limit=limit,
            is_prefix=prefix,
            has_lease=not no_lease,
        )


@app.command()
def verify(job: JobFile, overrides: Overrides = None, no_lease: NoLease = False) -> None:
    """Compare the table of a job with a replay of its input. The input is that of its newest checkpoint."""
    with errors_as_messages():
        from mixedmode.cli.job_files import checked_job

        loaded = checked_job(job, overrides or ())
        require_environment([])
        from mixedmode.cli.verify import verification_text
        from mixedmode.driver.verification import verify_job

        found = verify_job(loaded, has_lease=not no_lease)
        screen_print(verification_text(found))
        if not found.are_equal:
            raise typer.Exit(1)


@app.command()
def compact(
    job: JobFile,
    overrides: Overrides = None,
    output: Annotated[str | None, typer.Option("--output", metavar="FOLDER", help="Only this output.")] = None,
    target_size: Annotated[str, typer.Option("--target-size", help="How large a merged file may be.")] = "256MB",
    newest_only: Annotated[
        bool, typer.Option("--newest-only", help="Drop rows of a key that a newer one of an old epoch replaces.")
    ] = False,
) -> None:
    """Merge small files of a job's outputs. They are of epochs before its oldest checkpoint; the job may be running."""
    with errors_as_messages():
        from mixedmode.cli.compact import compaction_report
        from mixedmode.config import load_job
        from mixedmode.config.values import parse_bytes

        spec, target_bytes = load_job(job, overrides or ()).spec, parse_bytes(target_size)
        screen_print(compaction_report(spec, target_bytes=target_bytes, newest_only=newest_only, output=output))


@app.command()
def serve(
    directories: Annotated[list[str], typer.Argument(metavar="DIR...", help="Checkpoint folders, or their URLs.")],
    listen: Annotated[str, typer.Option("--listen", metavar="[HOST:]PORT", help="Where to listen.")] = "8080",
    cert: Certificate = None,
    key: Key = None,
    no_lease: NoLease = False,
) -> None:
    """Serve a page and an API over checkpoint folders by HTTP. Stop at Ctrl-C. Their jobs need not run."""
    with errors_as_messages():
        from mixedmode.cli.serve import serve_folders

        stop = stop_on_signals("stopping")
        serve_folders(directories, listen, cert, key, stop, has_leases=not no_lease)


@app.command()
def demo(
    orders: Annotated[int, typer.Option(help="Orders in the history.", min=1)] = 2_000_000,
    customers: Annotated[int, typer.Option(help="Customers.", min=1)] = 200_000,
    seconds: Annotated[int, typer.Option(help="How long the live feed runs.", min=1)] = 20,
    directory: Annotated[Path, typer.Option(help="Where the demo keeps its files; emptied first.")] = Path("run/demo"),
) -> None:
    """Generate a history and a live feed, and run a job over them. It goes through backlog, flip and live."""
    with errors_as_messages():
        require_environment([directory])
        from mixedmode.cli.demo import run_demo

        run_demo(directory, orders=orders, customers=customers, seconds=seconds, stop=stop_on_signals())


app.command(name="import-state")(import_state)
add_background_commands(app)
add_commands(app)
