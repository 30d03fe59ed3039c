"""Every workload that `mixedmode bench` can measure, by its name on the command line."""

from collections.abc import Mapping

from mixedmode_bench.nexmark import WORKLOADS as NEXMARK
from mixedmode_bench.workload import Workload
from mixedmode_bench.workloads.counts import COUNT_SUM, COUNT_SUM_40M, LIVE, SKEWED, WORD_COUNT
from mixedmode_bench.workloads.flights import flights_workload, found_flights
from mixedmode_bench.workloads.joins import AS_OF, AS_OF_LIVE, INTERVAL, REGULAR, REGULAR_LEFT
from mixedmode_bench.workloads.rows import WIDE
from mixedmode_bench.workloads.windows import WINDOWS

__all__ = ["WORKLOADS"]

_FLIGHTS = found_flights()
_COUNTS = (COUNT_SUM, LIVE, COUNT_SUM_40M, WORD_COUNT, WINDOWS, WIDE, SKEWED)
_OWN = (*_COUNTS, AS_OF, AS_OF_LIVE, INTERVAL, REGULAR, REGULAR_LEFT)
_REAL = () if _FLIGHTS is None else (flights_workload(_FLIGHTS),)

#: own ones first, then Nexmark's, then those over data that not everyone has
WORKLOADS: Mapping[str, Workload] = {w.name: w for w in (*_OWN, *NEXMARK.values(), *_REAL)}
