"""The step that asks a service for an answer to each row."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from mixedmode.config.connectors import AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import ClassReference, Count, CountOrZero, Lines, PositiveDurationMs, SpanMs
from mixedmode.config.function_settings import FallibleClass
from mixedmode.config.keyed import Keyed

__all__ = ["AsyncMapStep"]


class AsyncMapStep(FallibleClass, Keyed):
    """A step with a custom class that asks a service for answers; the key of a row is its request."""

    class_field: ClassVar[str] = "async_map"

    async_map: ClassReference = Field(description="the class, such as package.module:Class")
    output: Lines = Field(description="columns of an answer as Spark DDL, such as score double; rows get them")
    batch_size: Count = Field(default=1, description="the most requests of one call")
    capacity: Count = Field(default=100, description="the most calls at a time, in each subtask")
    timeout_ms: PositiveDurationMs = Field(default=30_000, description="how long a call may take")
    retries: CountOrZero = Field(default=3, description="how often a request that failed is sent again")
    backoff_ms: PositiveDurationMs = Field(
        default=100, description="the longest wait before a request is sent again; it doubles each time, up to 1m"
    )
    remember_ms: SpanMs | None = Field(
        default=None,
        description="how long an answer counts, by the clock; it is kept as state, and not asked for again; not given: "
        "for the epoch",
    )
    on_error: Literal["fail", "skip", "dead-letter"] = Field(
        default="fail",
        description="when a request has failed, also when sent again; fail: the job stops; skip: its rows are counted "
        "and left out; dead-letter: they go to an output of their own",
    )
    dead_letter: AnySink | None = Field(
        default=None, description="where rows go whose request has failed; needs on-error: dead-letter"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from self._key_findings()
        yield from self._failure_findings()
