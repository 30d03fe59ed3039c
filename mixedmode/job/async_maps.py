"""The arguments of `.async_map(...)`, as a typed dictionary, and the step that they make."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from mixedmode.config import AsyncMapStep, SinkSpec
from mixedmode.config.load import checked_section
from mixedmode.connectors.calls import Duration, given_arguments
from mixedmode.job.arguments import argument

__all__ = ["AsyncMapArguments", "async_map_step"]


class AsyncMapArguments(TypedDict, total=False):
    """Arguments of `.async_map(...)` about its calls.

    batch_size: the most requests of one call; by default 1.
    capacity: the most calls at a time, in each subtask; by default 100.
    timeout: how long a call may take; by default 30s.
    retries: how often a request that failed is sent again; by default 3.
    backoff: the longest wait before a request is sent again, which doubles each time; by default 100ms.
    remember: how long an answer counts, by the clock. By default it counts for the epoch.
    on_error: what to do with the rows of a request that has failed. `fail` stops the job. `skip` counts the rows and
        leaves them out. `dead-letter` writes them to the sink `dead_letter`.
    dead_letter: the sink for these rows; only with `on_error="dead-letter"`.
    """

    batch_size: int
    capacity: int
    timeout: Duration
    retries: int
    backoff: Duration
    remember: Duration
    on_error: Literal["fail", "skip", "dead-letter"]
    dead_letter: SinkSpec


def async_map_step(step: Mapping[str, Any], given: AsyncMapArguments) -> AsyncMapStep:
    """Return the step with these arguments.  step: its other settings.

    Raise TypeError for an unknown argument, and InvalidJobError for a wrong one.
    """
    settings = given_arguments(given, AsyncMapArguments, "async_map")
    values = {**step, **{name.replace("_", "-"): value for name, value in settings.items()}}
    return checked_section(AsyncMapStep, values, place="Job.async_map", name=argument)
