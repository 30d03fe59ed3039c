"""Validation of a job: from a job file, or a mapping, to a frozen JobSpec."""

from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.async_maps import AsyncMapStep
from mixedmode.config.calls import AGGREGATE_FUNCTIONS, AggregateCall
from mixedmode.config.dump import job_spec_to_yaml
from mixedmode.config.execution import (
    CheckpointingSpec,
    ExecutionBacklogSpec,
    ExecutionSpec,
    PipelineBacklogSpec,
    PipelineSpec,
    RuntimeMode,
    StateBacklogSpec,
    StateSpec,
)
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.load import FaultyJob, LoadedJob, job_spec_from_mapping, load_job, read_job
from mixedmode.config.modes import ModePolicy, resolve_mode
from mixedmode.config.order import OrderBy
from mixedmode.config.parts import JobParts
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec, WatermarkSpec
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.config.steps import (
    DeduplicateStep,
    JoinStep,
    KeyedAggregateStep,
    KeyedStep,
    MapStep,
    OneInputStep,
    OverStep,
    ProcessStep,
    SqlStep,
    TopStep,
)
from mixedmode.config.values import format_bytes, parse_bytes
from mixedmode.config.windows import CumulatingSpec, GlobalSpec, SessionSpec, SlidingSpec, TumblingSpec, WindowSpec
from mixedmode.durations import format_duration_ms, parse_duration_ms

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "AggregateCall",
    "ApplyChangesStep",
    "AsyncMapStep",
    "CheckpointingSpec",
    "CoGroupStep",
    "CoProcessStep",
    "CumulatingSpec",
    "DeduplicateStep",
    "ExecutionBacklogSpec",
    "ExecutionSpec",
    "FaultyJob",
    "GlobalSpec",
    "JobParts",
    "JobSettings",
    "JobSpec",
    "JoinStep",
    "KeyedAggregateStep",
    "KeyedStep",
    "LoadedJob",
    "MapStep",
    "ModePolicy",
    "OneInputStep",
    "OrderBy",
    "OverStep",
    "PipelineBacklogSpec",
    "PipelineSpec",
    "ProcessStep",
    "RuntimeMode",
    "SessionSpec",
    "SideOutputSpec",
    "SinkSpec",
    "SlidingSpec",
    "SourceSpec",
    "SqlStep",
    "StateBacklogSpec",
    "StateSpec",
    "TopStep",
    "TumblingSpec",
    "WatermarkSpec",
    "WindowSpec",
    "format_bytes",
    "format_duration_ms",
    "job_spec_from_mapping",
    "job_spec_to_yaml",
    "load_job",
    "parse_bytes",
    "parse_duration_ms",
    "read_job",
    "resolve_mode",
]
