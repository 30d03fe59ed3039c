"""The input that tasks of a stage or a result read without Spark: files of sources, and held blocks of stages. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mixedmode.executor.held_blocks import HeldBlocks
from mixedmode.executor.inner_folds import folding_reader
from mixedmode.expressions import QueryCalls
from mixedmode.plan.job_plan import JobPlan
from mixedmode.tasks.direct import AnyPieces, FilesRead, calls_functions, deal_out, effort_bytes, one_task
from mixedmode.tasks.held_rows import HeldPieces

__all__ = ["TaskInput"]


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The input of a reader. `rows`: the blocks of each stage, and how the reader's rows are made of those in them."""

    files: FilesRead
    rows: Sequence[HeldPieces]

    @classmethod
    def of(cls, plan: JobPlan, entry: str, files: FilesRead, held: Mapping[str, HeldBlocks]) -> "TaskInput":
        """Return the input of an entry.  held: of stages that have ended; rows that they have folded do not count."""
        here = plan.inner.get(entry, {})
        named = [name for name in here if name in held and folding_reader(plan, name) is None]
        return cls(files, [HeldPieces(here[name], tuple(held[name].blocks)) for name in named])

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to read."""
        return not any(pieces.held for pieces in self.rows) and not any(of_source for _, of_source in self.files)

    @property
    def effort_bytes(self) -> int:
        """Return the number of bytes of Parquet that take about as long to read, or more."""
        return effort_bytes(self.files) + sum(one.size for pieces in self.rows for one in pieces.held)

    @property
    def calls_functions(self) -> bool:
        """Return whether functions of the job are called with the rows: each call may take long."""
        of_rows = (query for pieces in self.rows for query in pieces.queries)
        return calls_functions(self.files) or any(QueryCalls.of(query).has_any for query in of_rows)

    def dealt(self, tasks: int) -> tuple[tuple[AnyPieces, ...], ...]:
        """Return the pieces of at most so many tasks, which read about equally much."""
        dealt: list[list[AnyPieces]] = [list(pieces) for pieces in deal_out(self.files, tasks)]
        begun = len(dealt)
        dealt += [[] for _ in range(tasks - begun)]
        for of_stage in self.rows:
            for number in range(min(tasks, len(of_stage.held))):
                own = replace(of_stage, held=of_stage.held[number::tasks])
                dealt[(begun + number) % tasks].append(own)
        return tuple(tuple(pieces) for pieces in dealt if pieces)

    def in_one_task(self) -> tuple[tuple[AnyPieces, ...]]:
        """Return all of it as the pieces of one task."""
        (pieces,) = one_task(self.files)
        return ((*pieces, *self.rows),)
