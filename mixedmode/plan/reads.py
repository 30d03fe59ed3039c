"""The input of a stage or an output: relations, and the sql that makes them of rows of sources and other stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mixedmode.plan.fingerprint import Fingerprint

__all__ = ["Reads", "SqlText", "StepTime", "inputs_fingerprint"]


@dataclass(frozen=True, slots=True)
class SqlText:
    """A sql step: its text, {name in the text: relation that it reads}, and the relation that it makes.

    `dimensions`: the names in the text that are dimensions.
    """

    text: str
    inputs: Mapping[str, str]
    makes: str
    dimensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTime:
    """The parts of a job that the time of a step depends on.

    `sources`: those whose records can reach it. `by_clock`: it goes by processing time. `downstream`: {operator id: its
    sources} of the steps by event time that its rows can reach; {} if the step has no event time.
    """

    sources: frozenset[str]
    by_clock: bool = False
    downstream: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reads:
    """The rows that a stage or an output reads: those of `relations`, one after the other.

    `sql` makes the relations that are no roots, in an order in which each text only reads what is made before it.
    `sources` and `stages`: the roots. `changelogs`: the stages among them whose rows may be retracted. `upstream`: all
    sources whose records can reach these rows.
    """

    relations: tuple[str, ...]
    sql: tuple[SqlText, ...] = ()
    sources: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    changelogs: frozenset[str] = frozenset()
    upstream: frozenset[str] = frozenset()

    @property
    def is_mixed(self) -> bool:
        """Return whether sql reads sources and stages, so that each part runs without rows of the others."""
        return bool(self.sql and self.sources and self.stages)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the dimensions that the sql joins."""
        return tuple(dict.fromkeys(name for text in self.sql for name in text.dimensions))


def inputs_fingerprint(reads: Reads) -> Fingerprint:
    """Return the part of a fingerprint that names the stages upstream, and the sources that are read beside them."""
    if not reads.stages:
        return {}
    return {"from": list(reads.stages), **({"sources": list(reads.sources)} if reads.sources else {})}
