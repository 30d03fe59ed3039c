"""A run of a whole job in a test: rows in, the rows of all outputs back.

Jobs of keyed steps over columns run in this process, in milliseconds. Jobs with SQL, map steps or expressions run on
Spark, over files in a temporary folder.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from mixedmode.clock import SystemClock
from mixedmode.config.arguments import of_type
from mixedmode.config.execution import RuntimeMode
from mixedmode.config.graph import MAIN
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode.testing.functions import by_name
from mixedmode.testing.outputs import Row
from mixedmode.testing.places import declared_schemas, job_in_folder, output_names
from mixedmode.testing.schemas import schema_of
from mixedmode.testing.settings import Instant, instant_us
from mixedmode.testing.step import Rows, table_of

if TYPE_CHECKING:
    from mixedmode.testing.job_runs import Found

__all__ = ["Inputs", "JobOutputs", "run_graph"]

#: {source: its rows}; a source that is left out has none
Inputs: TypeAlias = Mapping[str, Rows]

_WHERE = "run_graph"
_A_NAME = "the name of an output"


class JobOutputs:
    """The outputs of a run: `table()` and `changes()` of those of whole steps; the rows of the others by name.

    The names of the others are those of the job: the tag of a side output, and `<step>-late` or `<step>-dead-letter`.
    `late` and `dead-letter` are enough where only one step has such an output.
    `records_late` is the number of records that were too late for all of their windows, and `records_skipped` that of
    records that `on_error="skip"` left out.
    """

    def __init__(self, found: "Found") -> None:
        self._tables = found.tables
        self._rows = found.rows
        self.records_late = found.records_late
        self.records_skipped = found.records_skipped

    def table(self, output: str = MAIN) -> list[Row]:
        """Return the rows of an output of whole steps as a reader sees them at the end.

        output: its name, for a job with several. With a key, there is one row per key. Without a key, these are all
        rows that were written. They are ordered by their columns, the first column first and NULL last, so the order
        does not depend on the mode.
        """
        return [dict(row) for row in self._tables[self._of_steps(output)]]

    def changes(self, output: str = MAIN) -> list[Row]:
        """Return all rows that were written to an output of whole steps. With a key, `_op` is insert, update or delete.

        output: its name, for a job with several.
        """
        return [dict(row) for row in self._rows[self._of_steps(output)]]

    def _of_steps(self, output: str) -> str:
        if of_type(output, str, f"{_WHERE}: output", _A_NAME) not in self._tables:
            known = [name for name in self._tables if name]
            names = f"Outputs here: {', '.join(known)}." if known else "The job has one, without a name."
            hint = did_you_mean(output, known)
            what = (
                f"there is no output of this name.{hint}" if output else "the outputs of this job have names. Give one."
            )
            msg = f"{_WHERE}: {what} {names} found={output!r}"
            raise InvalidJobError(msg)
        return output

    def __getitem__(self, name: str) -> list[Row]:
        """Return the rows of an output other than the main one. Raise InvalidJobError for an unknown name."""
        of_type(name, str, f"{_WHERE}: output", _A_NAME)
        ending = [one for one in self if one.endswith(f"-{name}")]
        if name not in self._names and len(ending) != 1:
            if name in self._tables:
                msg = f"{_WHERE}: {name} is an output of whole steps. Call table({name!r}), or changes({name!r})."
                raise InvalidJobError(msg)
            known = ", ".join(self._names) or "no other output"
            msg = (
                f"{_WHERE}: the job has no output {name!r}.{did_you_mean(name, self._names)} Beside the main output, "
                f"it has {known}."
            )
            raise InvalidJobError(msg)
        exact = name if name in self._names else ending[0]
        return [dict(row) for row in self._rows[exact]]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the outputs other than the main one."""
        return iter(self._names)

    @property
    def _names(self) -> list[str]:
        return [name for name in self._rows if name not in self._tables]


def run_graph(
    job: Job,
    inputs: Inputs | None = None,
    *,
    live: Iterable[Inputs] = (),
    schemas: Mapping[str, str] | None = None,
    clock: Instant | None = None,
) -> JobOutputs:
    """Run a whole job over these rows until its input has ended, and return its outputs.

    Nothing is read from the places of the job, and nothing is written there: it may have no sink yet. The mode follows
    from the arguments, whatever mode the job has: only `inputs` is batch; with `live`, they are the backlog of mixed
    mode.

    inputs: {source: rows}. Rows are {column: value} each, or a pyarrow.Table. None: there is no backlog, as in
        streaming mode.
    live: the inputs of each live epoch after the flip, in order.
    schemas: {source: its columns as Spark DDL}, for sources that do not declare them.
    clock: processing time, in microseconds since 1970 or a datetime; by default, the present. Spark always has the
        present.

    Raises InvalidJobError for a wrong job and for rows that do not fit their source, and what the job would raise.
    """
    from mixedmode.testing.job_runs import run_here, run_on_spark  # noqa: PLC0415 - loads pyspark and RocksDB
    from mixedmode.testing.local_plan import needs_spark  # noqa: PLC0415 - as above

    of_type(
        job, Job, f"{_WHERE}: job", "a job whose last step is complete, such as job.key_by('k').aggregate(n='count(*)')"
    )
    later = _epochs(live)
    for given in ([] if inputs is None else [inputs]) + later:
        _check_form(given)
    declared = _schemas(job, by_name(schemas, f"{_WHERE}: schemas"))
    epochs = [_tables(given, declared) for given in ([] if inputs is None else [inputs]) + later]
    if not epochs:
        msg = f"{_WHERE}: there is no input. Pass `inputs`, `live`, or both."
        raise InvalidJobError(msg)
    mode = RuntimeMode.BATCH if not later else RuntimeMode.STREAMING if inputs is None else RuntimeMode.MIXED
    with tempfile.TemporaryDirectory(prefix="mixedmode-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        placed = job_in_folder(job, declared, folder, mode)
        if needs_spark(placed):
            if clock is not None:
                msg = f"{_WHERE}: this job runs on Spark, whose clock cannot be set. Leave `clock` out."
                raise InvalidJobError(msg)
            found = run_on_spark(placed, epochs, folder, output_names(placed))
        else:
            clock_ms = SystemClock().now_ms() if clock is None else instant_us(clock, where=f"{_WHERE}: clock") // 1000
            found = run_here(placed, job.where, epochs, folder, clock_ms)
    return JobOutputs(found)


def _epochs(live: Any) -> list[Inputs]:
    if not isinstance(live, Iterable) or isinstance(live, str | Mapping):
        msg = f"{_WHERE}: live must be a list of inputs, one for each live epoch. found={type(live).__name__}"
        raise InvalidJobError(msg)
    return list(live)


def _check_form(given: object) -> None:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        kind = type(given).__name__
        msg = f"{_WHERE}: the inputs of an epoch are {{source: rows}}. Name the source of the rows. found={kind}"
        raise InvalidJobError(msg)


def _schemas(job: Job, given: Mapping[str, str]) -> dict[str, str]:
    _check_sources(given, job.settings.sources, f"{_WHERE}: schemas")
    return declared_schemas(job.settings.sources, given, where=_WHERE)


def _tables(given: Inputs, schemas: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return {source: its rows} of all sources. Raise InvalidJobError for an unknown source and for unfit rows."""
    _check_sources(given, schemas, f"{_WHERE}: inputs")
    found = {}
    for name, ddl in schemas.items():
        schema = schema_of(ddl, where=f"{_WHERE}: schema of {name}")
        found[name] = table_of(given.get(name, ()), schema, where=f"{_WHERE}: {name}")
    return found


def _check_sources(given: Iterable[str], known: Iterable[str], where: str) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            msg = f"{where}: the job has no source {name}.{did_you_mean(name, names)} Sources here: {', '.join(names)}."
            raise InvalidJobError(msg)
