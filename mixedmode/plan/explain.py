"""The text of `mixedmode explain`: describes the plan of a job to a person before the job runs."""

from collections.abc import Iterator

from mixedmode.config import JobSpec, ModePolicy, SinkSpec, SourceSpec, format_duration_ms, resolve_mode
from mixedmode.keys import group_range
from mixedmode.plan.dimensions import joining_texts
from mixedmode.plan.drawing import as_tree
from mixedmode.plan.explain_order import order_lines
from mixedmode.plan.explain_steps import (
    combined,
    emitted_text,
    goes_by_time,
    map_lines,
    side_rows,
    state_text,
    step_lines,
)
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import ALL_ROWS, KeyedStage

_SUBTASKS_SHOWN = 8


def explain_plan(spec: JobSpec, plan: JobPlan, *, cores: int) -> str:
    """Return several lines, without a newline at the end. `cores` is the parallelism of a job that sets none."""
    policy = resolve_mode(spec)
    live = spec.parallelism or min(cores, spec.pipeline.max_parallelism)
    lines = [f"{spec.name}: {policy.mode} mode"]
    if not spec.graph.is_chain:
        lines += [f"  {line}" for line in as_tree(spec)]
    lines += [*_sources(spec, plan), *_dimensions(spec, plan)]
    for number, step in enumerate(plan.maps, 1):
        own = spec.step_parallelism.get(step.operator_id) or live
        in_backlog = spec.execution.backlog.parallelism or own
        lines += [f"map {number}: {step.operator_id}", *_sql(step.reads, plan)]
        lines += map_lines(step, in_backlog if policy.mode == "batch" else own, in_backlog)
    is_chain = spec.graph.is_chain
    if not plan.stages and is_chain:
        lines += [line for result in plan.results.values() for line in _sql(result.reads, plan, indent="  sql  ")]
        none = "no keyed step" if plan.maps else "no keyed step, no exchange, no state"
        lines.append(f"  rows go straight to the sink: {none}")
    for number, stage in enumerate(plan.stages, 1):
        lines += [f"stage {number}: {stage.operator_id}", *([] if is_chain else _reads(stage.reads))]
        lines += [*_sql(stage.reads, plan), *_exchange(spec, stage, policy, live)]
        lines += [*step_lines(stage, plan.side_sinks), *_result(stage, spec, policy)]
        if any(stage.operator_id in reader.reads.stages for reader in plan.stages):
            lines.append(f"  emits       {emitted_text(stage.emitted)}")
    for name, sink in spec.results.items():
        lines += _output(name, sink, plan, is_chain=is_chain)
    for name, sink in plan.side_sinks.items():
        lines += [f"sink {name}: {sink.place}", f"  rows        {side_rows(plan.stages, name)}; each with _epoch"]
    if not is_chain:
        lines += order_lines(plan)
    lines += ["committed", *_commits(policy, plan)]
    return "\n".join(lines)


def _sources(spec: JobSpec, plan: JobPlan) -> Iterator[str]:
    for name, source in spec.sources.items():
        yield f"source {name}: {source.place}"
        yield from _read_by(name, plan)
        for path, one in (source.inner_sources or {(): source}).items():
            side = "".join(f"{key}: " for key in path)
            yield from (f"  computes    {side}{made} = {text}" for made, text in one.computed_columns.items())
        column = plan.event_times.get(name)
        if column is None:
            yield "  event time  none"
            continue
        column += f" (local time in {plan.time_zones[name]})" if name in plan.time_zones else ""
        if name in plan.strategies:
            bound = format_duration_ms(source.watermark.out_of_orderness_ms)
            yield f"  event time  {column}, watermark {bound} behind the newest"
            yield from _watermark(source, is_used=any(goes_by_time(stage) for stage in plan.stages))
            is_listed = name in plan.listed and plan.listed[name] is None
            if plan.source_rows is None and not is_listed:
                yield "  read twice  the second time for event times alone: the steps do not get every record as it is"
        else:
            why = "no step goes by event time" if plan.stages else "there is no keyed step"
            why = why if name in plan.sources_read else "no step reads the source"
            yield f"  event time  {column}; no watermark, because {why}"


def _read_by(name: str, plan: JobPlan) -> Iterator[str]:
    """Yield what reads the records of a source."""
    reads = [read for of_entry in plan.direct.values() for read in of_entry if read.source == name]
    if reads:
        columns = ", ".join(dict.fromkeys(column.source for read in reads for column in read.columns))
        if reads[0].lines is None:
            yield f"  read by     the map tasks themselves, column by column ({columns}); Spark finds the files"
        else:
            yield f"  read by     the map tasks themselves ({columns}), an epoch with unusual lines by Spark"
        if reads[0].side is not None:
            yield "              its other side by Spark"
    elif name in plan.by_spark:
        yield f"  read by     Spark (because {plan.by_spark[name]})"


def _dimensions(spec: JobSpec, plan: JobPlan) -> Iterator[str]:
    for name, table in spec.dimensions.items():
        yield f"dimension {name}: {table.place}"
        yield f"  joined by   {', '.join(text.makes for text in joining_texts(plan) if name in text.dimensions)}"
        yield "  read        in each epoch, its newest version, so a change of the table concerns later epochs only"


def _watermark(source: SourceSpec, *, is_used: bool) -> Iterator[str]:
    """Yield the other watermark settings of a source, if a step depends on the watermark or they were set."""
    watermark = source.watermark
    if not is_used and not watermark.model_fields_set - {"out_of_orderness_ms"}:
        return
    parts = []
    if watermark.partition_column is not None:
        parts.append(f"the least over the values of {watermark.partition_column}")
    if watermark.idle_timeout_ms is None:
        parts.append("while silent, it holds the job's back")
    else:
        parts.append(f"silent for {format_duration_ms(watermark.idle_timeout_ms)}, it holds nothing back")
    if watermark.max_ahead_ms is None:
        parts.append("times ahead of the clock move it")
    else:
        ahead = format_duration_ms(watermark.max_ahead_ms)
        parts.append(f"times more than {ahead} ahead of the clock do not move it")
    yield f"  watermark   {'; '.join(parts)}"


def _exchange(spec: JobSpec, stage: KeyedStage, policy: ModePolicy, of_job: int) -> Iterator[str]:
    """Yield the lines on the exchange, which comes before the operator."""
    max_parallelism, own = spec.pipeline.max_parallelism, spec.step_parallelism.get(stage.operator_id)
    live = own or of_job
    backlog = spec.execution.backlog.parallelism or live
    keys = ", ".join(f"{field.name} {field.type}" for field in stage.key_fields if field != ALL_ROWS)
    to = f"by key ({keys})" if keys else "without a key, so all to one subtask"
    yield f"  exchange    {to}, Arrow blocks{combined(stage)}, {max_parallelism} key groups"
    yield f"  key groups  {_key_groups(backlog if policy.mode == 'batch' else live, max_parallelism)}"
    if policy.mode != "batch" and backlog != live:
        yield f"              in backlog {_key_groups(backlog, max_parallelism)}"
    autoscaler = spec.execution.autoscaler
    if autoscaler.enabled and own is None:
        most = autoscaler.max_parallelism or "as many as cores"
        yield f"              once live, the autoscaler chooses: {autoscaler.min_parallelism} to {most} subtasks"


def _result(stage: KeyedStage, spec: JobSpec, policy: ModePolicy) -> Iterator[str]:
    """Yield the lines on the output, the state and the execution strategy of the operator."""
    computed = [field for field in stage.operator.output_fields if field not in stage.key_fields]
    if not stage.operator.output_key:  # a function declares all of its columns itself
        computed = list(stage.operator.output_fields)
    yield f"  computes    {', '.join(f'{field.name} {field.type}' for field in computed)}"
    yield f"  state       {state_text(stage)}"
    if not stage.operator.states:
        return
    yield from _execution_strategies(policy)
    if goes_by_time(stage):
        yield f"  fires       {_firing(spec, policy)}"


def _firing(spec: JobSpec, policy: ModePolicy) -> str:
    if policy.mode == "batch":
        return "everything, at the end of the input"
    if policy.mode == "streaming":
        return "as the watermark moves; everything when the input ends"
    if spec.execution.backlog.end_of_key_watermark == "max":
        return "every window and event-time timer in the backlog; live as the watermark moves"
    return "in the backlog up to its greatest watermark; the rest live, as the watermark moves"


def _execution_strategies(policy: ModePolicy) -> Iterator[str]:
    if policy.mode == "batch":
        yield "  batch       sorted strategy, single-key backend, state dropped at the end"
        return
    if policy.mode == "mixed":
        yield "  backlog     sorted strategy, single-key backend; (key, state) pairs move to RocksDB as sorted runs"
    else:
        yield "  backlog     streaming strategy, RocksDB state"
    yield "  live        streaming strategy, RocksDB state"


def _key_groups(parallelism: int, max_parallelism: int) -> str:
    ranges = [group_range(s, parallelism=parallelism, max_parallelism=max_parallelism) for s in range(parallelism)]
    shown = [f"subtask {s} [{r.start}, {r.end})" for s, r in enumerate(ranges[:_SUBTASKS_SHOWN])]
    more = f" and {parallelism - _SUBTASKS_SHOWN} more subtasks" if parallelism > _SUBTASKS_SHOWN else ""
    return ", ".join(shown) + more


def _output(name: str, sink: SinkSpec, plan: JobPlan, *, is_chain: bool) -> Iterator[str]:
    """Yield the lines on an output of whole rows."""
    result = plan.results[name]
    if plan.stages and result.reads.sql and is_chain:
        yield "after the last stage"
        yield from _sql(result.reads, plan)
    yield f"sink{f' {name}' if name else ''}: {sink.place}"
    if not is_chain:
        yield from _reads(result.reads)
        yield from _sql(result.reads, plan)
    if result.key_columns:
        keys = ", ".join(result.key_columns)
        yield f"  upserts     one row per changed key ({keys}) and epoch, with _op and _epoch"
    else:
        yield "  rows        each with _op and _epoch"


def _reads(reads: Reads) -> Iterator[str]:
    yield f"  reads       {', '.join((*reads.sources, *reads.stages))}"


def _commits(policy: ModePolicy, plan: JobPlan) -> Iterator[str]:
    if policy.mode == "batch":
        yield "  nothing until the end; the output appears when all of it is there; a failure starts over"
        return
    every = format_duration_ms(policy.live_interval_ms)
    if policy.mode == "mixed":
        yield "  backlog     nothing before the flip; one manifest at the flip: state runs, offsets, outputs"
    else:
        yield f"  backlog     one manifest per epoch, each of about {format_duration_ms(policy.backlog_interval_ms)}"
    yield f"  live        one manifest every {every} in which there is something new"
    if plan.uses_clock:
        yield "  clock       counts as new once a second, because something here goes by it"
    yield "  outputs are published after their manifest, under names that a repeat of the epoch uses again"


def _sql(reads: Reads, plan: JobPlan, *, indent: str = "  sql         ") -> Iterator[str]:
    """Yield the lines on the sql steps of a reader: the text, and what computes it."""
    for step in reads.sql:
        yield f"{indent}{_one_line(step.text)}"
        yield f"{' ' * len(indent)}{_computed_by(reads, plan)}"


def _computed_by(reads: Reads, plan: JobPlan) -> str:
    reasons = {name: plan.by_spark.get(name, "") for name in reads.sources if name not in plan.listed}
    reasons |= {stage.operator_id: "it follows a map step" for stage in plan.maps if stage.operator_id in reads.sources}
    reasons |= {name: plan.inner_by_spark[name] for name in reads.stages if name in plan.inner_by_spark}
    roots = (*reads.sources, *reads.stages)
    if not reasons:
        has_side = any(plan.listed.get(name) is not None for name in reads.sources)
        return "on Arrow, rows of the other side by Spark" if has_side else "on Arrow"
    why = next(iter(reasons.values()))
    if len(reasons) == len(roots):
        return f"by Spark (because {why})" if why else "by Spark"
    return f"on Arrow, rows of {', '.join(reasons)} by Spark (because {why})"


def _one_line(sql: str) -> str:
    return " ".join(sql.split())
