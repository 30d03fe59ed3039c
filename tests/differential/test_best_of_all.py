"""The best rows of all: whatever the mode, the epochs and the flip are, the answer is that of the records.

The rows that are ranked are records, or those of an aggregate, which change and by whose key the output goes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.job import Job, Source
from mixedmode.testing import run_graph
from tests.random_cases import random_cases

Row = Mapping[str, Any]
RECORDS = st.lists(
    st.fixed_dictionaries({"k": st.sampled_from(["a", "b", "c", None]), "v": st.none() | st.integers(0, 3)}),
    max_size=12,
)


def job_of(n: int, *, over_totals: bool) -> Job:
    job = Job("best", sources={"t": Source.parquet("in", schema="k string, v bigint")}, mode="batch")
    if over_totals:
        job = job.key_by("k").aggregate(v="sum(v)")
    return job.top(n, order_by="v desc nulls last", name="best")


def best(records: Sequence[Row], n: int, *, over_totals: bool) -> list[tuple[int, Any, Any]]:
    """The first `n` rows by v, the greatest first and NULL last, then by the whole row: (rank, k, v)."""
    rows: list[tuple[Any, Any]] = [(row["k"], row["v"]) for row in records]
    if over_totals:
        found: dict[Any, list[int]] = {}
        for key, value in rows:
            found.setdefault(key, []).extend([] if value is None else [value])
        rows = [(key, sum(values) if values else None) for key, values in found.items()]
    rows.sort(key=lambda row: (row[1] is None, -(row[1] or 0), row[0] is not None, row[0] or ""))
    return [(rank, *row) for rank, row in enumerate(rows[:n], 1)]


@given(parts=st.lists(RECORDS, min_size=1, max_size=4), n=st.integers(1, 3), over_totals=st.booleans())
@settings(max_examples=random_cases(20))
def test_the_best_rows_of_all_are_the_same_in_all_modes(parts: list[list[Row]], n: int, *, over_totals: bool) -> None:
    job = job_of(n, over_totals=over_totals)
    inputs = [{"t": part} for part in parts]
    runs = {
        "batch": run_graph(job, {"t": [row for part in parts for row in part]}),
        "mixed": run_graph(job, inputs[0], live=inputs[1:]),
        "streaming": run_graph(job, live=inputs),
    }
    expected = best([row for part in parts for row in part], n, over_totals=over_totals)
    for mode, found in runs.items():
        rows = sorted((row["rank"], row["k"], row["v"]) for row in found.table())
        assert rows == expected, mode
