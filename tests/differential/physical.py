"""Everything that decides how a job runs, and must not change its answer: settings of the job file, and sizes.

The settings are found in the schema of the job file, and the sizes (rows of a block, bytes of a slice, ...) in the
modules of the tasks. So a new one is drawn in random cases, or is named here as one that decides about the answer.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

import mixedmode
from mixedmode.config import JobSpec
from mixedmode.job import Job
from mixedmode.plan.keyed_operators import Where
from tests.docs.test_snippets import settings

SUBTASKS = st.sampled_from([1, 2, 3, 4])

#: {setting: its values}; None: it is not set
PHYSICAL: Mapping[str, st.SearchStrategy[Any]] = {
    "parallelism": SUBTASKS,
    "steps[].parallelism": st.none() | SUBTASKS,
    "pipeline.max-parallelism": st.sampled_from([4, 13, 128]),
    "state.backlog.sort-memory": st.sampled_from([None, 1, 2_000, 2**16]),
    "execution.backlog.parallelism": st.none() | SUBTASKS,
    "execution.checkpointing.interval": st.sampled_from([None, "1ms", "20ms"]),
    "execution.checkpointing.num-retained": st.integers(1, 3),
    "execution.checkpointing.verify": st.sampled_from(["checksums", "sizes"]),
    "execution.checkpointing.access": st.sampled_from(["owner", "umask"]),
    "execution.checkpointing.tolerable-failed-checkpoints": st.integers(0, 2),
    "sink.max-file-size": st.sampled_from([None, 1, 500]),
    "sink.compression": st.sampled_from([None, "gzip", "none"]),
    "sink.success-marker": st.booleans(),
}
#: those that stay the same while the job has state
FIXED = {"pipeline.max-parallelism"}
#: settings that say what the job computes, or what it reads and writes where; a prefix stands for all below it
LOGICAL = (
    "name",
    "execution.runtime-mode",
    "execution.backlog.end-of-key-watermark",
    "execution.backlog.emit",
    "execution.checkpointing.dir",
    "functions.",
    "sources.",
    "dimensions.",
    "steps[].",
    "outputs.",
    "sink.key",
    "sink.format",
    "sink.path",
    "sink.partition-by",
)
#: settings that decide which records an epoch has, or whether it is backlog, and with that which records are late and
#: which results are early
EPOCHS = (
    "execution.interval-during-backlog",
    "execution.checkpointing.interval-during-backlog",
    "pipeline.backlog.watermark-lag-threshold",
)
#: settings that need more than this process: time, a network, Spark
ELSEWHERE = ("execution.autoscaler.", "execution.checkpointing.timeout", "serve.", "spark")

#: packages whose modules have sizes
_PACKAGES = ("executor", "expressions", "keys", "operators", "sort", "state", "tasks", "sinks")
#: numbers of these modules that are no sizes
NO_SIZES = {
    *("ACCURACY", "BACKOFF_MS_MAX", "LAST_TIMERS_MAX", "LIST_BYTES_MAX", "MAX_PARALLELISM_LIMIT", "SWEEP_EVERY_MS"),
    *("_NAME_BYTES_MAX", "_SHORT", "_SHOWN_MAX", "_TEXT_MAX"),  # these and the above: limits that a user meets
    *("DAY_US", "SECOND_US", "_DAY_US", "_DAY_ZERO", "_TO_THE_END"),
    *(
        "SAMPLED_KEYS",
        "_ROWS_LOOKED_AT",
        "_BITS",
        "_LAST",
        "_LINES_MAX",
        "_LINE_BITS",
        "_LINE_BYTES",
        "_STRIPE_BYTES",
    ),  # formats
}
#: {bound with values of its own: these}: rows that subtasks fold; rows of a join that find no partner; runs that are
#: merged at once, since merging one run would make no fewer
BOUNDS: Mapping[str, tuple[float, ...]] = {"DISTINCT_PART_MIN": (0.0, 1.0), "MANY_TIMES": (0, 1), "_FAN_IN": (2, 3)}


def all_settings() -> Iterator[str]:
    """Yield every setting of a job file. The settings of a step of any kind are those of one step."""
    yield from dict.fromkeys(path for path, _ in settings(JobSpec))


def is_named(path: str) -> bool:
    """Return whether a setting is known not to be physical, or to be out of reach."""
    return any(path == name or (name.endswith(".") and path.startswith(name)) for name in LOGICAL + EPOCHS + ELSEWHERE)


@cache
def sizes() -> Mapping[str, tuple[str, ...]]:
    """Return {name of a size: the modules that have it}. A module that imports a size has it, too."""
    for package in _PACKAGES:
        found = importlib.import_module(f"{mixedmode.__name__}.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    modules: dict[str, list[str]] = {}
    for name, loaded in sorted(sys.modules.items()):
        if name.startswith(tuple(f"{mixedmode.__name__}.{package}" for package in _PACKAGES)):
            for key, value in vars(loaded).items():
                if key in BOUNDS or (is_size(value) and key.isupper() and key not in NO_SIZES):
                    modules.setdefault(key, []).append(name)
    return {key: tuple(names) for key, names in modules.items()}


def is_size(value: object) -> bool:
    """Return whether a value is a number of rows, bytes or the like. Smaller ones are mostly parts of formats."""
    return type(value) is int and 64 <= value < 2**40


@dataclass(frozen=True)
class Physical:
    """One assignment: {setting: value} and {size: value}. What is not in them has its default."""

    settings: Mapping[str, Any]
    sizes: Mapping[str, float]

    def job(self, job: Job) -> "Assigned":
        """Return the job with these settings."""
        document = job.spec.as_document()
        for path, value in self.settings.items():
            if value is not None:
                for section, key in _places(document, path):
                    section[key] = value
        return Assigned(JobSpec.model_validate(document), job.where)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Give the modules these sizes while the block runs."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.sizes.items():
                for module in sizes()[name]:
                    patch.setattr(sys.modules[module], name, value)
            yield


@dataclass(frozen=True)
class Assigned:
    """A job as `tests.harness.run` needs it."""

    spec: JobSpec
    where: Where


def _places(document: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield (section, key) of a setting: once, or for each step or output."""
    first, *rest, key = path.split(".") if "." in path else [path, path]
    if path == first:
        yield document, path
    elif first == "steps[]":
        yield from ((step, key) for step in document["steps"] if has_key(step))
    elif first == "sink":
        yield from ((sink, key) for sink in document.get("outputs", {"": document.get("sink")}).values())
    else:
        for name in (first, *rest):
            document = document.setdefault(name, {})
        yield document, key


def has_key(step: Mapping[str, Any]) -> bool:
    """Return whether a step has more than one key, so that it may have several subtasks."""
    return bool(step.keys() & {"key-by", "join", "co-process", "co-group"})


@st.composite
def physicals(draw: st.DrawFn, fixed: Mapping[str, Any]) -> Physical:
    """All settings, and some sizes.  fixed: settings that have these values."""
    chosen = {path: draw(values) for path, values in PHYSICAL.items() if path not in fixed} | {**fixed}
    return Physical(chosen, draw(some_sizes()))


@st.composite
def some_sizes(draw: st.DrawFn) -> Mapping[str, float]:
    """Small sizes, so that a few rows are as many as there can be."""
    names = draw(st.just(set(sizes())) | st.sets(st.sampled_from(sorted(sizes())), max_size=12))
    return {name: draw(st.sampled_from(BOUNDS.get(name, (1, 2, 3, 7, 64)))) for name in sorted(names)}


@st.composite
def starts(draw: st.DrawFn) -> list[Physical]:
    """The assignments of the starts of a job, one after the other; the last one holds for all further starts."""
    fixed = {path: draw(PHYSICAL[path]) for path in sorted(FIXED)}
    return draw(st.lists(physicals(fixed), min_size=1, max_size=5))
