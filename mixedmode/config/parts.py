"""The valid parts of a job that has mistakes, so that checks of one part go on although another part is wrong.

A check runs on parts only if everything that it reads is valid. So no error is reported that is only the consequence of
another one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from mixedmode.config.connectors import AnyDimension, AnySource
from mixedmode.config.document import Path
from mixedmode.config.fields import SparkSettings, TableName, key_of
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.spec import SPARK_DEFAULTS, JobSpec
from mixedmode.config.spelling import nearest
from mixedmode.config.steps import STEP_KINDS, Step

#: sections that an unknown key at the top may have been meant for
_OPTIONAL = {name for name, field in JobSpec.model_fields.items() if not field.is_required()}
#: {section of the job: the type of its entries}
_INPUTS: Mapping[str, TypeAdapter[dict[str, Any]]] = {
    "sources": TypeAdapter(dict[TableName, AnySource]),
    "dimensions": TypeAdapter(dict[TableName, AnyDimension]),
}
_STEP: TypeAdapter[Any] = TypeAdapter(Step)
_SPARK: TypeAdapter[Any] = TypeAdapter(SparkSettings)
#: settings of a step whose error at the level of the job leaves the rows of the step unknown
_ROWS_DEPEND_ON = {"map", "process", "async-map", "window", "deduplicate", "over", "apply-changes", "join"}
#: settings of a step that no column of its rows depends on; those of a group belong together
_APART = (
    {"parallelism"},
    {"name"},
    {"having"},
    {"late", "allowed-lateness", "early-results-every"},
    {"on-error", "dead-letter"},
)
#: settings that have no meaning without the window of the step
_WINDOW = {"window", "late", "allowed-lateness", "early-results-every"}
#: settings about the rows of a step
_OF_ROWS = {"having"}
_OF_STEPS = {key_of(name) for kind in STEP_KINDS.values() for name in kind.model_fields}


class _Unknown(SinkSpec):
    """A sink that takes the place of a wrong one."""

    @property
    @override
    def place(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts of a job that SQL and columns are checked with.

    spec: the valid sections, and the defaults in place of the others; its sources and steps are the valid ones.
    steps: all steps by their position; None for a step that is wrong.
    unknown: the names of the sources that are wrong. untimed: the valid sources whose `event-time` is in doubt.
    partial: the positions of steps that lack a column of their rows.
    unknown_dimensions: the names of the dimensions that are wrong.
    """

    spec: JobSpec
    steps: tuple[Step | None, ...]
    unknown: frozenset[str] = frozenset()
    untimed: frozenset[str] = frozenset()
    partial: frozenset[int] = frozenset()
    unknown_dimensions: frozenset[str] = frozenset()

    @classmethod
    def whole(cls, spec: JobSpec) -> "JobParts":
        """Return the parts of a job without mistakes."""
        return cls(spec, spec.steps)

    @property
    def is_whole(self) -> bool:
        """Return whether no part is wrong or in doubt."""
        return not (self.unknown or self.untimed or self.unknown_dimensions or None in self.steps)

    def without(self, findings: Sequence[Path]) -> "JobParts":
        """Return the parts without those that are the subject of `findings`, which concern the job as a whole."""
        steps, unknown, untimed = list(self.steps), set(self.unknown), set(self.untimed)
        tables = set(self.unknown_dimensions)
        for path in findings:
            match path:
                case ("steps", int(index)):
                    steps[index] = None
                case ("steps", int(index), key, *_) if key in _ROWS_DEPEND_ON:
                    steps[index] = None
                case ("sources", str(name)):
                    unknown.add(name)
                case ("dimensions", str(name), *_):
                    tables.add(name)
                case ("sources", str(name), *_):
                    untimed.add(name)
        sources = {name: source for name, source in self.spec.sources.items() if name not in unknown}
        dimensions = {name: table for name, table in self.spec.dimensions.items() if name not in tables}
        valid = tuple(step for step in steps if step is not None)
        spec = self.spec.model_copy(update={"sources": sources, "dimensions": dimensions, "steps": valid})
        return replace(
            self,
            spec=spec,
            steps=tuple(steps),
            unknown=frozenset(unknown),
            untimed=frozenset(untimed - unknown),
            unknown_dimensions=frozenset(tables),
        )


def valid_fields(error: ValidationError) -> set[str]:
    """Return the sections of a job in which validation found no error."""
    wrong = {str(detail["loc"][0]) for detail in error.errors(include_url=False) if detail["loc"]}
    fields = set(JobSpec.model_fields)
    misspelled = {nearest(key, fields) for key in wrong - fields}
    if None in misspelled:
        wrong |= _OPTIONAL
    return fields - wrong - misspelled


def valid_parts(values: Mapping[str, Any], valid: set[str], partial: frozenset[int]) -> JobParts | None:
    """Return the valid parts of a job; None if it names no sources or no steps, or if Spark's settings are wrong.

    valid: the sections without an error. partial: see JobParts.
    """
    sources, steps = values.get("sources"), values.get("steps")
    if "spark" not in valid or not (sources and isinstance(sources, Mapping) and steps and isinstance(steps, list)):
        return None
    known = _known("sources", sources)
    given = values.get("dimensions")
    dimensions = given if isinstance(given, Mapping) else {}
    tables = _known("dimensions", dimensions)
    checked = tuple(map(_step, steps))
    fields: dict[str, Any] = {
        name: TypeAdapter[Any](JobSpec.model_fields[name].annotation or Any).validate_python(values[name])
        for name in valid - {"sources", "dimensions", "steps", "spark"}
        if values.get(name) is not None
    }
    spec = JobSpec.model_construct(
        **{"name": "job", **({} if "outputs" in fields else {"sink": _Unknown()}), **fields},
        spark={**SPARK_DEFAULTS, **_SPARK.validate_python(values.get("spark") or {})},
        sources=known,
        dimensions=tables,
        steps=tuple(step for step in checked if step is not None),
    )
    return JobParts(
        spec,
        checked,
        unknown=frozenset(str(name) for name in sources if name not in known),
        partial=partial,
        unknown_dimensions=frozenset(str(name) for name in dimensions if name not in tables),
    )


def without_wrong_settings(
    values: Mapping[str, Any], wrong: Iterable[Path]
) -> tuple[Mapping[str, Any], frozenset[int]]:
    """Return a job without wrong settings of its steps, so that the other mistakes of these steps show.

    Removed are settings that no row depends on, windows, and outputs of aggregates. The second result has the steps
    that lack a window or an output: their input is known, and their rows are not. An unknown key is removed if it is
    nearly the name of such a setting.  wrong: paths of errors.
    """
    steps, partial = values.get("steps"), set()
    if not isinstance(steps, list):
        return values, frozenset()
    reduced = list(steps)
    for path in wrong:
        match path:
            case ("steps", int(index), "aggregate", str(output), *_):
                step = reduced[index]
                others = {one: call for one, call in step["aggregate"].items() if one != output}
                if others:
                    reduced[index] = _without({**step, "aggregate": others}, _OF_ROWS)
                    partial.add(index)
            case ("steps", int(index), "window", *_):
                reduced[index] = _without(reduced[index], {*_WINDOW, *_OF_ROWS})
                partial.add(index)
            case ("steps", int(index), str(key), *_) if isinstance(reduced[index], Mapping):
                name = key if key in _OF_STEPS else nearest(key, _OF_STEPS)
                group = next((group for group in _APART if name in group), None)
                if group is not None:
                    reduced[index] = _without(reduced[index], {*group, key})
    return {**values, "steps": reduced}, frozenset(partial)


def _known(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid ones of some sources or dimensions."""
    known: dict[str, Any] = {}
    for name, one in given.items():
        with suppress(ValidationError):
            known |= _INPUTS[section].validate_python({name: one})
    return known


def _without(step: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name not in names}


def _step(value: Any) -> Any:
    try:
        return _STEP.validate_python(value)
    except ValidationError:
        return None
