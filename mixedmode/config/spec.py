"""The specification of a job: frozen, validated sections. Every setting and every default is in these files.

    spec.py       the job as a whole
    execution.py  how it runs             sources.py  what it reads
    steps.py      what it computes        windows.py  over which pieces of time
    sinks.py      where rows go           fields.py   the kinds of value

A field's key in YAML is its name in kebab case without the unit (`out_of_orderness_ms` is `out-of-orderness`). A
section is built from a mapping of such keys; `load.py` turns its errors into messages with file and line.
A spec holds what the user asked for, not what follows from it: `modes.resolve_mode` decides how a job runs.

Invariants (tests/config/test_spec.py):
  I1  there is no key beyond these, and every one of them is described
  I2  JobSpec.model_validate(spec.as_document()) == spec
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pydantic import Field, field_validator

from mixedmode.config.connectors import AnyDimension, AnySink, AnySource
from mixedmode.config.dimensions import dimension_findings
from mixedmode.config.document import Path, path_text
from mixedmode.config.execution import ExecutionSpec, PipelineSpec, RuntimeMode, StateSpec
from mixedmode.config.fields import Count, Identifier, Section, SparkSettings, TableName, Text
from mixedmode.config.functions import FunctionSpec
from mixedmode.config.graph import MAIN, PREVIOUS, STEP_BEFORE, Graph, input_findings
from mixedmode.config.names import repeated
from mixedmode.config.reader_options import ALLOWED_IN_JOB, setting_problem
from mixedmode.config.serve import ServeSpec
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.step_inputs import needs_of, refusal_of
from mixedmode.config.step_outputs import FunctionStep, function_section, side_outputs_of
from mixedmode.config.steps import KeyedStep, MapStep, SqlStep, Step, operator_id, sql_id

SPARK_DEFAULTS = {"spark.master": "local[*]"}  # the embedded Spark, on all cores

#: (the fields that a check reads, the check)
Check = tuple[set[str], Callable[[], Iterator[tuple[Path, str]]]]


class JobSettings(Section):
    """A job without its steps and sink."""

    name: Text = Field(description="the job's name, in messages and in Spark's user interface")
    execution: ExecutionSpec = Field(default=ExecutionSpec(), description="how the job runs")
    parallelism: Count | None = Field(default=None, description="subtasks of a keyed step; not given: as many as cores")
    pipeline: PipelineSpec = Field(default=PipelineSpec(), description="what holds for every operator")
    state: StateSpec = Field(default=StateSpec(), description="how state is kept")
    spark: SparkSettings = Field(
        default=SPARK_DEFAULTS, description="any configuration of Spark, with or without the leading spark."
    )
    serve: ServeSpec | None = Field(default=None, description="an HTTP server beside the run; not given: none")
    functions: Mapping[TableName, FunctionSpec] = Field(
        default={}, description="functions of Python that SQL may call, by the name that SQL uses"
    )
    sources: Mapping[TableName, AnySource] = Field(description="what the job reads, by name", min_length=1)
    dimensions: Mapping[TableName, AnyDimension] = Field(
        default={}, description="bounded tables that sql joins by name; each epoch reads their newest version"
    )

    @property
    def chosen_mode(self) -> RuntimeMode:
        """The mode that the user asked for. Automatic is resolved: batch if every source is bounded, else mixed."""
        if self.execution.runtime_mode is not RuntimeMode.AUTOMATIC:
            return self.execution.runtime_mode
        return RuntimeMode.BATCH if all(source.bounded for source in self.sources.values()) else RuntimeMode.MIXED

    @field_validator("spark", mode="after")
    @classmethod
    def _with_defaults(cls, spark: Mapping[str, str]) -> Mapping[str, str]:
        return {**SPARK_DEFAULTS, **spark}

    def joint_findings(self, valid: Collection[str]) -> Iterator[tuple[Path, str]]:
        """Yield the errors of the fields taken together, of all checks that read only fields in `valid`."""
        for reads, check in self._checks():
            if reads.issubset(valid):
                yield from check()

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self.joint_findings(type(self).model_fields)

    def _checks(self) -> list[Check]:
        return [
            ({"parallelism", "execution", "pipeline"}, self._parallelism_findings),
            ({"parallelism", "execution", "sources"}, self._autoscaler_findings),
            ({"execution", "sources"}, self._checkpoint_findings),
            ({"sources"}, self._source_findings),
            ({"sources", "dimensions"}, lambda: dimension_findings(self.dimensions, self.sources)),
            ({"spark"}, self._spark_findings),
            ({"functions"}, self._function_findings),
        ]

    def _parallelism_findings(self) -> Iterator[tuple[Path, str]]:
        autoscaler = self.execution.autoscaler
        settings: dict[Path, int | None] = {
            ("parallelism",): self.parallelism,
            ("execution", "backlog", "parallelism"): self.execution.backlog.parallelism,
            ("execution", "autoscaler", "min-parallelism"): autoscaler.min_parallelism,
            ("execution", "autoscaler", "max-parallelism"): autoscaler.max_parallelism,
        }
        yield from self._too_many_subtasks(settings)

    def _too_many_subtasks(self, settings: Mapping[Path, int | None]) -> Iterator[tuple[Path, str]]:
        limit = self.pipeline.max_parallelism
        for path, parallelism in settings.items():
            if parallelism is not None and parallelism > limit:
                text = (
                    " is more than the number of key groups, so some subtasks would never receive data. "
                    f"Lower it, or raise max-parallelism. found={parallelism}, max-parallelism={limit}"
                )
                yield path, text

    def _autoscaler_findings(self) -> Iterator[tuple[Path, str]]:
        autoscaler, here = self.execution.autoscaler, ("execution", "autoscaler")
        if not autoscaler.enabled:
            return
        if self.chosen_mode is RuntimeMode.BATCH:
            text = f" has no effect: batch mode is over before it is live. Remove it. mode={self.chosen_mode}"
            yield (*here, "enabled"), text
        low, high = autoscaler.min_parallelism, autoscaler.max_parallelism
        if self.parallelism is not None and (self.parallelism < low or (high is not None and self.parallelism > high)):
            bounds = f"from {low} on" if high is None else f"from {low} to {high}"
            text = f" is not what the autoscaler may choose: {bounds}. Change one of them. found={self.parallelism}"
            yield ("parallelism",), text

    def _checkpoint_findings(self) -> Iterator[tuple[Path, str]]:
        if self.chosen_mode is not RuntimeMode.BATCH and self.execution.checkpointing.dir is None:
            text = (
                " is missing: only batch mode runs without a place for its state. Add a folder or a URL. "
                f"mode={self.chosen_mode}"
            )
            yield ("execution", "checkpointing", "dir"), text

    def _spark_findings(self) -> Iterator[tuple[Path, str]]:
        for key, value in self.spark.items():
            problem = setting_problem(key, value)
            if problem is not None and key.lower() != ALLOWED_IN_JOB.lower():
                yield ("spark", key), problem

    def _function_findings(self) -> Iterator[tuple[Path, str]]:
        for name, owner in repeated(self.functions, {}):
            yield ("functions", name), f": {owner} has this name already (case does not count). Choose another."

    def _source_findings(self) -> Iterator[tuple[Path, str]]:
        for name, owner in repeated(self.sources, {PREVIOUS: STEP_BEFORE}):
            yield ("sources", name), f": {owner} has this name already (case does not count). Choose another."


class JobSpec(JobSettings):
    """A whole job. After `load.py` has resolved its paths, they are absolute or URLs."""

    steps: tuple[Step, ...] = Field(
        description="what it computes; each reads the one before, or what its `from` names", min_length=1
    )
    sink: AnySink | None = Field(default=None, description="where the rows of the last step go")
    outputs: Mapping[Identifier, AnySink] = Field(
        default={}, description="in place of `sink`: where the rows of several steps go, by name"
    )

    def as_document(self) -> dict[str, Any]:
        """Return the job as in YAML: settings that differ from the defaults, with durations and sizes as text."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @property
    def step_parallelism(self) -> dict[str, int | None]:
        """{id of a step: its own parallelism} of the steps that have subtasks; None: the parallelism of the job."""
        maps = [step for step in self.steps if isinstance(step, MapStep)]
        keyed = [step for step in self.steps if not isinstance(step, SqlStep | MapStep)]
        numbered = [*enumerate(maps), *enumerate(keyed)]
        grouped = [
            sql_id(step, at) for at, step in enumerate(self.steps) if isinstance(step, SqlStep) and step.may_be_keyed
        ]
        return {operator_id(step, before): step.parallelism for before, step in numbered} | dict.fromkeys(grouped)

    @property
    def results(self) -> Mapping[str, SinkSpec]:
        """{name: sink} of the outputs of whole steps: the main output, whose name is "", or `outputs`."""
        return self.outputs if self.sink is None else {MAIN: self.sink}

    @property
    def graph(self) -> Graph:
        """The inputs of each step and each output."""
        return Graph.of(self.sources, self.steps, {name: sink.from_ for name, sink in self.results.items()})

    @property
    def sinks(self) -> dict[Path, SinkSpec]:
        """{path in the document: sink} of every output of the job, those of whole steps first."""
        found: dict[Path, SinkSpec] = {} if self.sink is None else {("sink",): self.sink}
        found |= {("outputs", name): sink for name, sink in self.outputs.items()}
        for name, source in self.sources.items():
            found |= {("sources", name, *path): sink for path, sink in source.outputs.items()}
        for index, step in enumerate(self.steps):
            found |= {("steps", index, *path): sink for path, sink in side_outputs_of(step).items()}
        return found

    def _checks(self) -> list[Check]:
        return [
            *super()._checks(),
            ({"steps", "sink", "outputs"}, self._result_findings),
            ({"sources", "steps", "sink", "outputs"}, self._graph_findings),  # also beside a wrong dimension
            ({"sources", "dimensions", "steps", "outputs"}, self._step_findings),
            ({"sources", "steps"}, self._event_time_findings),
            ({"execution", "pipeline", "steps"}, self._scaling_findings),
        ]

    def _result_findings(self) -> Iterator[tuple[Path, str]]:
        if self.sink is None and not self.outputs:
            text = (
                " is missing: where the rows of the last step go. Add it, or `outputs` for the rows of several steps."
            )
            yield ("sink",), text
        if self.sink is not None and self.outputs:
            text = f" and sink exclude each other. Write {path_text(('sink',))} as one of the outputs, or remove it."
            yield ("outputs",), text
        for path, sink in self.sinks.items():
            for column, _ in repeated(sink.key, {}):
                yield (*path, "key"), f" names a column twice. Remove one. found={column}"
            if sink.key and path[0] not in ("sink", "outputs"):
                yield (*path, "key"), " has no effect here: these rows are only added. Remove it."
            if path[0] != "outputs" and sink.from_ is not None:
                text = (
                    " has no effect here: it says which step an entry of `outputs` reads. Remove it, or use `outputs`."
                )
                yield (*path, "from"), text

    def _graph_findings(self) -> Iterator[tuple[Path, str]]:
        if not self.results:
            return
        given = {name: sink.from_ for name, sink in self.results.items()}
        yield from input_findings(self.sources, self.steps, given, dimensions=self.dimensions)
        maps = [index for index, step in enumerate(self.steps) if isinstance(step, MapStep)]
        if maps and not self.graph.is_chain:
            text = (
                " is for jobs that are a chain: each step reads the one before it, and the only output the last one. "
                "Remove `from` and `outputs`, or put the map step into a job of its own."
            )
            yield ("steps", maps[0], "map"), text

    def _step_findings(self) -> Iterator[tuple[Path, str]]:
        owners = {PREVIOUS: STEP_BEFORE, **dict.fromkeys(self.dimensions, "a dimension")}
        owners |= dict.fromkeys(self.sources, "a source")
        for index, step in enumerate(self.steps):
            for name, owner in repeated([step.name] if step.name else [], owners):
                text = f": {owner} has this name already (case does not count). Choose another. found={name}"
                yield ("steps", index, "name"), text
            if step.name is not None:
                owners[step.name] = "another step"
        tags: dict[str, str] = {}
        for index, step in enumerate(self.steps):
            if isinstance(step, FunctionStep):
                path, section = function_section(step)
                for tag, _ in repeated(section.outputs, tags):
                    text = ": another step has this name already (case does not count). Choose another."
                    yield ("steps", index, *path, "outputs", tag), text
                tags |= dict.fromkeys(section.outputs, "another step")
        for name, _ in repeated(self.outputs, tags):
            yield ("outputs", name), ": another output has this name already (case does not count). Choose another."

    def _scaling_findings(self) -> Iterator[tuple[Path, str]]:
        own: dict[Path, int | None] = {
            ("steps", index, "parallelism"): step.parallelism
            for index, step in enumerate(self.steps)
            if not isinstance(step, SqlStep)
        }
        may_be_keyed = any(isinstance(step, SqlStep) and step.may_be_keyed for step in self.steps)
        keyed = {path: own[path] for path in own if not isinstance(self.steps[int(path[1])], MapStep)}
        yield from self._too_many_subtasks(keyed)
        if self.execution.autoscaler.enabled and None not in own.values() and not may_be_keyed:
            text = (
                " has no effect: there is no step with subtasks that has no parallelism of its own. Remove it, or that."
            )
            yield ("execution", "autoscaler", "enabled"), text

    def _event_time_findings(self) -> Iterator[tuple[Path, str]]:
        """Refuse steps whose input cannot have event time, or may have retractions that they cannot read."""
        graph, untimed = self.graph, set[str]()
        for index, step in enumerate(self.steps):
            keyed, sources = graph.keyed_upstream(index, self.steps)
            if isinstance(step, MapStep) and keyed:
                text = " must come before the first keyed step. Move it, or use sql."
                yield ("steps", index, "map"), text
            if isinstance(step, SqlStep | MapStep):
                continue
            needs = needs_of(step)
            if needs is None:
                continue
            for number in keyed:
                before = self.steps[number]
                assert isinstance(before, KeyedStep), before
                refusal = refusal_of(needs, before, path_text(("steps", number)))
                if refusal is not None:
                    yield ("steps", index, needs.setting), refusal
            if needs.goes_by_time is not None:
                text = (
                    f" is missing: {needs.goes_by_time} by the time of a record. Name the column that says when it "
                    "happened."
                )
                found = [name for name in sources if self.sources[name].event_time is None and name not in untimed]
                yield from ((("sources", name, "event-time"), text) for name in found)
                untimed.update(found)
