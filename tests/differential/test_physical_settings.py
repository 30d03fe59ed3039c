"""Settings and sizes that decide how a job runs never change its answer.

A job runs twice over the same epochs: once as in all other tests, which compare it with plain Python, and once with
random settings and sizes, others at each start, and with kills and failures of the store. Both write the same rows in
each epoch, and leave out the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.differential import cases as aggregates
from tests.differential import test_graphs, test_joins, test_modes, test_regular_joins
from tests.differential.physical import PHYSICAL, Physical, all_settings, is_named, some_sizes, starts
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_broadcast import some_functions as broadcast_functions
from tests.differential.test_co_process import some_functions
from tests.differential.test_graphs import Graph, Play, struck
from tests.differential.test_late_in_chains import disordered
from tests.differential.timelines import Case, Mode, cases
from tests.harness import manifests, output_changes, run
from tests.walk.faults import Fault, Faults

some_graph = st.one_of(
    test_graphs.graphs(),
    test_regular_joins.graphs(),
    *(
        test_joins.graphs(joins)
        for joins in (test_joins.as_of_joins(), test_joins.interval_joins(), some_functions, broadcast_functions)
    ),
)


def test_every_setting_is_physical_or_named_as_another_kind() -> None:
    unknown = [path for path in all_settings() if path not in PHYSICAL and not is_named(path)]
    assert not unknown, "add them to PHYSICAL, or say in LOGICAL that they decide about the answer"
    assert set(PHYSICAL) <= set(all_settings())


class Assigning:
    """Starts of a job, each with the next assignment."""

    def __init__(self, assignments: Sequence[Physical]) -> None:
        self._left = list(assignments)

    def __call__(self, job: Job, session: SparkSession, **given: Any) -> None:
        physical = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        with physical.in_force():
            run(physical.job(job), session, **given)  # type: ignore[arg-type]


def written(played: Play) -> dict[int, list[str]]:
    """The rows of each output, with their epochs and operations."""
    folders = {number: played.base / "out" / str(number) for number in played.graph.outputs}
    return {
        number: sorted(repr(sorted(row.items())) for row in output_changes(folder))
        for number, folder in folders.items()
    }


def counted(played: Play) -> dict[int, Any]:
    """The numbers that each epoch has counted."""
    if played.mode == "batch":
        return {}
    return {
        one.epoch: (one.records_in, one.records_late, one.records_skipped, one.watermark_us, one.step_watermarks)
        for one in manifests(played.base / "checkpoints")
    }


@given(
    case=cases() | disordered(),
    mode=st.sampled_from(["mixed", "mixed", "streaming", "batch"]),
    graph=some_graph,
    assignments=starts(),
    strikes=struck,
    lag_ms=st.sampled_from([None, 1, 20, 50]),
)
@local_cases(0.005)
def test_no_setting_and_no_size_changes_a_row(
    case: Case,
    mode: Mode,
    graph: Graph,
    assignments: list[Physical],
    strikes: list[Fault],
    lag_ms: int | None,
    faults: Faults,
) -> None:
    with case_folder() as base:
        fixed = Play(case, mode, graph, base / "fixed", faults=faults, lag_ms=lag_ms)
        other = replace(fixed, base=base / "other", strikes=strikes, run_job=Assigning(assignments))
        assert other.outputs() == fixed.outputs()
        assert written(other) == written(fixed)
        assert counted(other).items() <= counted(fixed).items()


@given(case=aggregates.cases(test_modes.RANDOM_MODES, needs_spark=False), sizes=some_sizes())
@local_cases(0.02)
def test_no_size_changes_an_aggregate_of_any_type(case: aggregates.Case, sizes: Mapping[str, float]) -> None:
    with case_folder() as base, Physical({}, sizes).in_force():
        test_modes.check(case, case.mode, None, base)
