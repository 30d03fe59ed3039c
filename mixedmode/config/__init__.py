"""From a job file, or a mapping, to a frozen and validated JobSpec."""

from mixedmode.config.calls import AGGREGATE_FUNCTIONS, AggregateCall
from mixedmode.config.dump import job_spec_to_yaml
from mixedmode.config.load import LoadedJob, job_spec_from_mapping, load_job, load_job_spec
from mixedmode.config.modes import ModePolicy, resolve_mode
from mixedmode.config.spec import (
    CheckpointingSpec,
    ExecutionBacklogSpec,
    ExecutionSpec,
    JobSettings,
    JobSpec,
    KeyedAggregateStep,
    PipelineBacklogSpec,
    PipelineSpec,
    RuntimeMode,
    SinkSpec,
    SourceSpec,
    SqlStep,
    StateBacklogSpec,
    StateSpec,
    WatermarkSpec,
)
from mixedmode.config.values import format_bytes, format_duration_ms, parse_bytes, parse_duration_ms

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "AggregateCall",
    "CheckpointingSpec",
    "ExecutionBacklogSpec",
    "ExecutionSpec",
    "JobSettings",
    "JobSpec",
    "KeyedAggregateStep",
    "LoadedJob",
    "ModePolicy",
    "PipelineBacklogSpec",
    "PipelineSpec",
    "RuntimeMode",
    "SinkSpec",
    "SourceSpec",
    "SqlStep",
    "StateBacklogSpec",
    "StateSpec",
    "WatermarkSpec",
    "format_bytes",
    "format_duration_ms",
    "job_spec_from_mapping",
    "job_spec_to_yaml",
    "load_job",
    "load_job_spec",
    "parse_bytes",
    "parse_duration_ms",
    "resolve_mode",
]
