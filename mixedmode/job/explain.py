"""`mixedmode explain`: the plan in words, for a person who wants to know what will happen before it does."""

from collections.abc import Iterator

from mixedmode.config import JobSpec, ModePolicy, format_duration_ms, resolve_mode
from mixedmode.job.plan import JobPlan, KeyedStage
from mixedmode.keys import group_range
from operators.aggregate import AggregateOperator, MultisetAggregateOperator

_SUBTASKS_SHOWN = 8


def explain_plan(spec: JobSpec, plan: JobPlan, *, cores: int) -> str:
    """Several lines; ends without a newline. `cores` is the parallelism of a job that sets none."""
    policy = resolve_mode(spec)
    live = spec.parallelism or min(cores, spec.pipeline.max_parallelism)
    backlog = spec.execution.backlog.parallelism or live
    lines = [f"{spec.name}: {policy.mode} mode", *_sources(spec, plan)]
    if not plan.stages:
        lines += [f"  sql  {_one_line(step.text)}" for step in plan.sql]
        lines.append("  rows go straight to the sink: no keyed step, no exchange, no state")
    for number, stage in enumerate(plan.stages, 1):
        lines += _stage(stage, number, policy, spec.pipeline.max_parallelism, live, backlog)
    lines += _sink(spec, plan)
    lines += ["committed", *_commits(policy)]
    return "\n".join(lines)


def _sources(spec: JobSpec, plan: JobPlan) -> Iterator[str]:
    for name, source in spec.sources.items():
        yield f"source {name}: {source.format} {source.path}"
        if plan.reads:
            columns = ", ".join(dict.fromkeys(column.source for column in plan.reads))
            yield f"  read by     the map tasks themselves, column by column ({columns}); Spark finds the files"
        column = plan.event_times.get(name)
        if column is None:
            yield "  event time  none"
        else:
            bound = format_duration_ms(source.watermark.out_of_orderness_ms)
            if plan.stages and plan.stages[0].event_time is not None:
                yield f"  event time  {column}, watermark {bound} behind the newest"
            else:
                why = "a sql step drops the column" if plan.stages else "there is no keyed step"
                yield f"  event time  {column}, but no watermark: {why}"


def _stage(
    stage: KeyedStage, number: int, policy: ModePolicy, max_parallelism: int, live: int, backlog: int
) -> Iterator[str]:
    yield f"stage {number}: {stage.operator_id}"
    for step in stage.sql:
        yield f"  sql         {_one_line(step.text)}"
    keys = ", ".join(f"{field.name} {field.type}" for field in stage.key_schema.fields)
    yield f"  exchange    by key ({keys}), Arrow blocks{_combines(stage)}, {max_parallelism} key groups"
    yield f"  key groups  {_key_groups(live, max_parallelism)}"
    if policy.mode == "mixed" and backlog != live:
        yield f"              in backlog {_key_groups(backlog, max_parallelism)}"
    yield f"  computes    {', '.join(f'{field.name} {field.type}' for field in stage.result_fields)}"
    if not stage.operator.states:
        yield "  state       none: rows taken back and rows added become one upsert per key"
        return
    yield f"  state       {_state(stage)}"
    yield from _paths(policy)


def _combines(stage: KeyedStage) -> str:
    return ", combined per key before the shuffle" if isinstance(stage.operator, AggregateOperator) else ""


def _state(stage: KeyedStage) -> str:
    if isinstance(stage.operator, MultisetAggregateOperator):
        return "every row of a key with its multiplicity, because these aggregates cannot take a row back"
    fields = len(stage.operator.states[0].fields)
    return f"{fields} columns per key"


def _paths(policy: ModePolicy) -> Iterator[str]:
    if policy.mode == "batch":
        yield "  batch       sorted path, single-key backend, state dropped at the end"
        return
    if policy.mode == "mixed":
        yield "  backlog     sorted path, single-key backend; (key, state) pairs move to RocksDB as sorted runs"
    else:
        yield "  backlog     streaming path, RocksDB state"
    yield "  live        streaming path, RocksDB state"


def _key_groups(parallelism: int, max_parallelism: int) -> str:
    ranges = [group_range(s, parallelism=parallelism, max_parallelism=max_parallelism) for s in range(parallelism)]
    shown = [f"subtask {s} [{r.start}, {r.end})" for s, r in enumerate(ranges[:_SUBTASKS_SHOWN])]
    more = f" and {parallelism - _SUBTASKS_SHOWN} more subtasks" if parallelism > _SUBTASKS_SHOWN else ""
    return ", ".join(shown) + more


def _sink(spec: JobSpec, plan: JobPlan) -> Iterator[str]:
    place = spec.sink.path or "standard output"
    yield f"sink: {spec.sink.format} {place}"
    if plan.key_columns:
        yield f"  upserts     one row per changed key ({', '.join(plan.key_columns)}) and epoch, with _op and _epoch"
    else:
        yield "  rows        each with _op and _epoch"


def _commits(policy: ModePolicy) -> Iterator[str]:
    if policy.mode == "batch":
        yield "  nothing until the end; the output appears when all of it is there; a failure starts over"
        return
    every = format_duration_ms(policy.live_interval_ms)
    if policy.mode == "mixed":
        yield "  backlog     nothing before the flip; one manifest at the flip: state runs, offsets, outputs"
    else:
        yield f"  backlog     one manifest per epoch, each of about {format_duration_ms(policy.backlog_interval_ms)}"
    yield f"  live        one manifest every {every} in which there is something new"
    yield "  outputs are published after their manifest, under names that a repeat of the epoch gives again"


def _one_line(sql: str) -> str:
    return " ".join(sql.split())
