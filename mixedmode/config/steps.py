"""The steps of a job: SQL, map functions, keyed aggregates, process functions, top, deduplicate, over, joins.

Those with a function over two inputs are in function_steps.py, those that ask a service in async_maps.py, and those
that apply changes in apply_changes.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.async_maps import AsyncMapStep
from mixedmode.config.calls import AGGREGATE_WORDS
from mixedmode.config.connectors import AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import (
    Call,
    ClassReference,
    Columns,
    Count,
    LatenessMs,
    Lines,
    OfRowsBefore,
    Orders,
    OutputName,
    PositiveDurationMs,
    Section,
    SpanMs,
)
from mixedmode.config.function_settings import CustomClass, FunctionSettings
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.joins import JoinSpec
from mixedmode.config.keyed import Keyed, Reading
from mixedmode.config.names import repeated
from mixedmode.config.spelling import nearest
from mixedmode.config.two_inputs import TwoInputStep
from mixedmode.config.windows import WINDOW_COLUMNS, WindowSpec

#: the timeMode of a class of Spark, and the form of its rows: as in operators/spark_processor, which imports Arrow
TimeMode = Literal["None", "EventTime", "ProcessingTime"]
RowsAs = Literal["row", "pandas"]
#: the column that a step with `top` adds
RANK_COLUMN = "rank"
_IN_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_GAP = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_KEYED = re.compile(
    r"\b(?:group\s+by|select\s+distinct|over|limit|join|(?:union|intersect|except|minus)(?!\s+all\b))\b"
    rf"|\b(?:{'|'.join(sorted(AGGREGATE_WORDS))})\s*\("
    rf"|\bfrom\b(?:[^()]|{_IN_PARENTHESES})*,|\b(?:in|exists){_GAP}\({_GAP}(?:select|with|from|table|\()",
    re.IGNORECASE | re.DOTALL,
)


class SqlStep(Reading):
    """A step of stateless Spark SQL over the sources, or over the rows that the previous step emits."""

    sql: Lines = Field(description="a SELECT")
    clock: Literal["refused", "allowed"] = Field(
        default="refused",
        description="allowed: the SQL may ask for the current time, and the modes then return other rows",
    )

    @property
    def may_be_keyed(self) -> bool:
        """True if the text has an aggregate, UNION, OVER, LIMIT, a join, IN or EXISTS with a query, and so on.

        Then the step may have state and subtasks. Only Spark knows for certain.
        """
        return _KEYED.search(self.sql) is not None


class MapStep(Reading, CustomClass):
    """A step with a custom map function over the rows of each subtask, and with a list per subtask if it keeps one."""

    class_field: ClassVar[str] = "map"

    map: ClassReference = Field(description="the class, such as package.module:Class")
    parallelism: Count | None = Field(
        default=None, description="subtasks of this step; not given: as many as the job has"
    )


class KeyedInput(Keyed):
    """The input of a keyed aggregate: keys, windows, and the treatment of late records."""

    key_by: Columns = Field(default=(), description=Keyed.model_fields["key_by"].description, min_length=1)
    window: WindowSpec | None = Field(
        default=None, description="one row per key and window; not given: one row per key, over all its records"
    )
    allowed_lateness_ms: LatenessMs = Field(
        default=0,
        description="how long after its end a window still accepts records, and emits its changed result; its state is "
        "kept for as long",
    )
    early_results_every_ms: PositiveDurationMs | None = Field(
        default=None, description="how often windows that are still open emit the result so far; not given: never"
    )
    late: AnySink | None = Field(
        default=None, description="where records go that come too late for their windows; not given: they are counted"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        yield from self._parallelism_findings()
        yield from self._window_findings()

    @property
    def has_final_windows(self) -> bool:
        """True if each window is emitted once."""
        return self.window is not None and self.allowed_lateness_ms == 0 and self.early_results_every_ms is None

    def _window_findings(self) -> Iterator[tuple[Path, str]]:
        given = {
            "allowed-lateness": self.allowed_lateness_ms != 0,
            "early-results-every": self.early_results_every_ms is not None,
            "late": self.late is not None,
        }
        if self.window is None:
            text = " has no effect without a window. Add a window, or remove it."
            yield from (((key,), text) for key, is_given in given.items() if is_given)
            return
        if self.window.global_ is not None:
            text = " has no effect on a global window, which does not end with time. Remove it."
            yield from (((key,), text) for key, is_given in given.items() if is_given)
        if self.window.is_by_clock:
            text = " is not for windows of processing time, in which no record is late. Remove it."
            yield from (((key,), text) for key, is_given in given.items() if is_given)
        for column in self.key_columns:
            if column.lower() in WINDOW_COLUMNS:
                text = f": the window adds a column of this name. Rename yours in a sql step before. found={column}"
                yield ("key-by",), text


class KeyedAggregateStep(KeyedInput):
    """A step that keeps one row per key, or per key and window, up to date."""

    aggregate: Mapping[OutputName, Call] = Field(description="output columns, such as flights: count(*)", min_length=1)
    having: Lines | None = Field(
        default=None,
        description="a condition in SQL over the columns of the result; only rows that meet it are emitted",
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        taken = dict.fromkeys(self.key_columns, "a key column")
        if self.window is not None:
            taken |= dict.fromkeys(WINDOW_COLUMNS, "a column of the window")
        for output, owner in repeated(self.aggregate, taken):
            yield ("aggregate", output), f": {owner} has this name already (case does not count). Choose another."


class ProcessStep(FunctionSettings, Keyed):
    """A step with a custom function over the records of each key, with state and timers."""

    class_field: ClassVar[str] = "process"

    process: ClassReference = Field(description="the class, such as package.module:Class")
    time_mode: TimeMode | None = Field(
        default=None,
        description="of a StatefulProcessor of Spark: the timeMode of its transformWithState, by which its timers fire",
    )
    rows_as: RowsAs | None = Field(
        default=None,
        description="of a StatefulProcessor: pandas if it is written for transformWithStateInPandas; not given: row",
    )
    late: AnySink | None = Field(
        default=None,
        description="with broadcast: where records go that come before the watermark; not given: they are counted",
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        yield from self._function_findings()
        if self.late is not None and not self.broadcast:
            yield ("late",), ": no record is late for a function without broadcast. Remove it."


class TopSpec(Section):
    """The number of rows to keep of each key, or of all rows, and their order."""

    n: Count = Field(description="how many rows of each key")
    order_by: Orders = Field(
        description="columns or SQL expressions, the best rows first, such as [price desc, bidder]; "
        "rows that are equal in them are ordered by the whole row",
        min_length=1,
    )


class TopStep(Keyed):
    """A step that keeps the best rows of each key, or of all rows, with their ranks, up to date."""

    key_by: Columns = Field(default=(), description=Keyed.model_fields["key_by"].description, min_length=1)
    top: TopSpec = Field(description="the best rows of each key, or of all rows, with their rank from 1")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        yield from self._parallelism_findings()
        for column in self.key_columns:
            if column.lower() == RANK_COLUMN:
                text = f": the step emits a column of this name. Rename yours in a sql step before. found={column}"
                yield ("key-by",), text


class DeduplicateSpec(Section):
    """The choice of the one row to keep of each key."""

    keep: Literal["first", "last", "any"] = Field(
        description="first: the first row by event time, once no earlier one can come; last: the newest row, "
        "updated; any: the first that arrives"
    )
    tie_break: Columns = Field(
        default=(), description="columns that order rows of one event time; then the whole row does"
    )
    within_ms: SpanMs | None = Field(
        default=None, description="how long after its row, in event time, a key is forgotten; not given: never"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        for column, _ in repeated(self.tie_break, {}):
            yield ("tie-break",), f" names a column twice. Remove one. found={column}"
        if self.keep == "any" and self.tie_break:
            yield ("tie-break",), " has no effect with keep: any, which takes the first row that arrives. Remove it."
        if self.keep == "last" and self.within_ms is not None:
            text = (
                " is for keep: first and keep: any. With keep: last, a key has one row, which a newer one replaces "
                "however late it comes. Remove it."
            )
            yield ("within",), text


class DeduplicateStep(Keyed):
    """A step that keeps one row of each key."""

    deduplicate: DeduplicateSpec = Field(description="which row of each key")

    @property
    def is_append_only(self) -> bool:
        """True if the step reads rows that are never retracted, and emits each row once."""
        return self.deduplicate.keep != "last"

    @property
    def goes_by_watermark(self) -> bool:
        """True if the step needs event time."""
        return self.deduplicate.keep == "first" or self.deduplicate.within_ms is not None

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()


class OverSpec(Section):
    """The columns that are computed for each row, and the order of rows of one event time."""

    columns: Mapping[OutputName, OfRowsBefore] = Field(
        description="output columns, such as before: lag(price), or mean: avg(price) rows between 9 preceding and "
        "current row",
        min_length=1,
    )
    tie_break: Columns = Field(
        default=(), description="columns that order rows of one event time; then the whole row does"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        for column, _ in repeated(self.tie_break, {}):
            yield ("tie-break",), f" names a column twice. Remove one. found={column}"


class OverStep(Keyed):
    """A step that adds columns to each row, computed of the rows before it, of its key or of all rows."""

    key_by: Columns = Field(default=(), description=Keyed.model_fields["key_by"].description, min_length=1)
    over: OverSpec = Field(description="columns that are computed of the rows before each row, by event time")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        yield from self._parallelism_findings()
        for output, owner in repeated(self.over.columns, dict.fromkeys(self.key_columns, "a key column")):
            yield ("over", "columns", output), f": {owner} has this name already (case does not count). Choose another."
        for output, call in self.over.columns.items():
            if call.span_ms is not None and self.over.tie_break:
                text = (
                    ": a frame of a span of time has all rows of one event time, and `tie-break` orders them. Put this "
                    "column into a step of its own, without `tie-break`."
                )
                yield ("over", "columns", output), text


class JoinStep(TwoInputStep):
    """A step that joins the rows of two inputs by key."""

    section: ClassVar[str] = "join"

    join: JoinSpec = Field(description="the two inputs, and which of their rows belong together")


#: a keyed step that reads all of its inputs as one
OneInputStep = KeyedAggregateStep | ProcessStep | AsyncMapStep | TopStep | DeduplicateStep | OverStep | ApplyChangesStep
KeyedStep = OneInputStep | JoinStep | CoProcessStep | CoGroupStep


#: {key that identifies a kind of step: the kind}
STEP_KINDS: Mapping[str, type[Section]] = {
    "sql": SqlStep,
    "map": MapStep,
    "aggregate": KeyedAggregateStep,
    "process": ProcessStep,
    "async-map": AsyncMapStep,
    "top": TopStep,
    "deduplicate": DeduplicateStep,
    "over": OverStep,
    "apply-changes": ApplyChangesStep,
    "join": JoinStep,
    "co-process": CoProcessStep,
    "co-group": CoGroupStep,
}
#: (keys, the kind of a step that has one of them); the first match wins
_TELLTALES = (
    (("sql",), "sql"),
    (("map",), "map"),
    (("process",), "process"),
    (("async-map",), "async-map"),
    (("aggregate",), "aggregate"),
    (("top",), "top"),
    (("deduplicate",), "deduplicate"),
    (("over",), "over"),
    (("apply-changes",), "apply-changes"),
    (("join",), "join"),
    (("co-process",), "co-process"),
    (("batch-size", "capacity", "timeout", "retries", "backoff", "remember"), "async-map"),
    (("co-group",), "co-group"),
    (("folder", "args", "output", "event-time", "outputs", "on-error", "dead-letter", "broadcast"), "process"),
    (("time-mode", "rows-as"), "process"),
    (("key-by", "window", "allowed-lateness", "early-results-every", "late", "having"), "aggregate"),
)


def operator_id(step: "MapStep | KeyedStep", steps_before: int) -> str:
    """Return the id of a step in messages and in the checkpoint folder: its name, or its kind and number.

    steps_before: the number of earlier steps that have an id. Map steps and keyed steps are counted separately.

    >>> operator_id(KeyedAggregateStep.model_validate({"key-by": "a", "aggregate": {"n": "count(*)"}}), 1)
    'aggregate-2'
    """
    kind = next(kind for kind, model in STEP_KINDS.items() if type(step) is model)
    return step.name or f"{kind}-{steps_before + 1}"


def sql_id(step: SqlStep, index: int) -> str:
    """Return the id of a sql step: its name, or its position in the job. Its state has it, too, if it has one."""
    return step.name or f"sql-{index + 1}"


def _step_kind(step: Any) -> str | None:
    """Return the kind of a step.

    A misspelled key still identifies the kind, so that the message can be about that key.
    """
    for kind, model in STEP_KINDS.items():
        if isinstance(step, model):
            return kind
    if not isinstance(step, Mapping):
        return None
    known = {"name", "from", *(key for keys, _ in _TELLTALES for key in keys)}
    given = {nearest(str(key), known) for key in step if key not in known} | set(step)
    return next((kind for keys, kind in _TELLTALES if given.intersection(keys)), None)


Step = Annotated[
    Annotated[SqlStep, Tag("sql")]
    | Annotated[MapStep, Tag("map")]
    | Annotated[KeyedAggregateStep, Tag("aggregate")]
    | Annotated[ProcessStep, Tag("process")]
    | Annotated[AsyncMapStep, Tag("async-map")]
    | Annotated[TopStep, Tag("top")]
    | Annotated[DeduplicateStep, Tag("deduplicate")]
    | Annotated[OverStep, Tag("over")]
    | Annotated[ApplyChangesStep, Tag("apply-changes")]
    | Annotated[JoinStep, Tag("join")]
    | Annotated[CoProcessStep, Tag("co-process")]
    | Annotated[CoGroupStep, Tag("co-group")],
    Discriminator(_step_kind),
]
