"""The targets of the benchmark, as figures. A target that is missed is shown; it never fails a run.

They mean something at the default size of a workload only, on two cores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: what of a run is looked at: all of it, or its live epochs of one kind, without the first one
Part = Literal["", "large epochs", "small epochs"]


@dataclass(frozen=True, slots=True)
class RatioTarget:
    """Of the time per event of `slower` to that of `faster`."""

    slower: str
    faster: str
    at_least: float | None = None
    at_most: float | None = None
    of: Part = ""


@dataclass(frozen=True, slots=True)
class FigureTarget:
    """Of one contestant alone: events a second, or seconds of an epoch."""

    name: str
    contestant: str
    unit: Literal["events/s", "s"]
    at_least: float | None = None
    at_most: float | None = None
    of: Part = ""


@dataclass(frozen=True, slots=True)
class MultipleTarget:
    """Of a contestant's seconds to those that it took for another workload, which has to come before."""

    contestant: str
    than: str
    at_most: float


_NEXMARK = (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)  # those that are measured
_AGAINST_DUCKDB = RatioTarget("mixed", "duckdb", at_most=2.5)
RATIOS: Mapping[str, tuple[RatioTarget, ...]] = {
    "count-sum": (
        # FLIP-327 reports 2.5x and 0.96x for its own modes
        RatioTarget("streaming", "mixed", at_least=8),
        RatioTarget("batch", "mixed", at_least=0.95),
        RatioTarget("spark-streaming", "mixed", at_least=15),
        RatioTarget("flink-streaming", "mixed", at_least=8),
        RatioTarget("transform-with-state", "mixed", at_least=200),
        RatioTarget("flink-batch", "mixed", at_least=3),
        RatioTarget("spark-batch", "mixed", at_least=2),
        RatioTarget("mixed", "duckdb", at_most=2),
    ),
    "live": (
        RatioTarget("spark-streaming", "mixed", at_least=15, of="large epochs"),
        RatioTarget("mixed", "spark-streaming", at_most=0.35, of="small epochs"),
    ),
    **{f"nexmark-q{number}": (RatioTarget("spark-batch", "mixed", at_least=1.5),) for number in _NEXMARK},
    "flights": (RatioTarget("spark-batch", "mixed", at_least=1.5),),
    "wide": (RatioTarget("spark-batch", "mixed", at_least=2),),
    **dict.fromkeys(("windows", "word-count", "skewed"), (_AGAINST_DUCKDB,)),
    "as-of": (RatioTarget("mixed", "duckdb", at_most=6), RatioTarget("spark-batch", "mixed", at_least=5)),
    "interval": (RatioTarget("spark-streaming", "mixed", at_least=10), RatioTarget("spark-batch", "mixed", at_least=1)),
    "regular": (RatioTarget("flink-streaming", "mixed", at_least=5),),
}
FIGURES: Mapping[str, tuple[FigureTarget, ...]] = {
    "live": (
        FigureTarget("large epochs", "mixed", "events/s", at_least=500_000, of="large epochs"),
        FigureTarget("small epochs", "mixed", "s", at_most=0.35, of="small epochs"),
    ),
    "as-of-live": (FigureTarget("large epochs", "mixed", "events/s", at_least=200_000, of="large epochs"),),
}
MULTIPLES: Mapping[str, tuple[MultipleTarget, ...]] = {
    "count-sum-40m": (MultipleTarget("mixed", "count-sum", at_most=4.2),),
}
