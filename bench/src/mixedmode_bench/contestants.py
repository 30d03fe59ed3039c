"""The contestants, by name.

A class is imported only when it is asked for, so that nothing has to be installed that is not used.
"""

import importlib
from collections.abc import Collection, Mapping

from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode_bench.contestant import Contestant
from mixedmode_bench.workload import Workload

#: name on the command line -> module:class, in the order in which tables show them
CONTESTANTS: Mapping[str, str] = {
    "mixed": "mixedmode_bench.ours:Mixed",
    "batch": "mixedmode_bench.ours:Batch",
    "streaming": "mixedmode_bench.ours:Streaming",
    "spark-batch": "mixedmode_bench.spark:SparkBatch",
    "spark-streaming": "mixedmode_bench.spark:SparkStreaming",
    "transform-with-state": "mixedmode_bench.transform:TransformWithState",
    "transform-with-state-initial": "mixedmode_bench.transform:TransformWithStateInitial",
    "flink-streaming": "mixedmode_bench.flink:FlinkStreaming",
    "flink-batch": "mixedmode_bench.flink:FlinkBatch",
    "duckdb": "mixedmode_bench.duckdb_peer:DuckDB",
}
MODES = ("mixed", "batch", "streaming")
PEERS = tuple(name for name in CONTESTANTS if name not in MODES)

#: those whose input has an end, so that nothing of their answer may be lacking
ENDS_INPUT = frozenset({"batch", "spark-batch", "flink-streaming", "flink-batch", "duckdb"})


def make_contestant(name: str) -> Contestant:
    """One of CONTESTANTS, or a class of yours as `module:Class`.  Raises InvalidJobError if there is none."""
    where = CONTESTANTS.get(name, name)
    if ":" not in where:
        raise InvalidJobError(unknown("contestant", name, CONTESTANTS))
    made = _loaded(where)
    assert callable(made), where
    contestant: Contestant = made()
    return contestant


def find_workload(name: str) -> Workload:
    """One of WORKLOADS, or one of yours as `module:NAME`.  Raises InvalidJobError if there is none."""
    if ":" in name:
        workload = _loaded(name)
        assert isinstance(workload, Workload), name
        return workload
    workloads = _workloads()
    if name not in workloads:
        raise InvalidJobError(unknown("workload", name, workloads))
    return workloads[name]


def workload_names() -> tuple[str, ...]:
    """Of WORKLOADS, in its order."""
    return tuple(_workloads())


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """A message for a name that is none of `known`, with the nearest one, should it be a slip."""
    meant = did_you_mean(name, known)
    return f"there is no {kind} of this name.{meant} `mixedmode bench --list` names all of them. {kind}={name}"


def _workloads() -> Mapping[str, Workload]:
    from mixedmode_bench.workloads import WORKLOADS  # noqa: PLC0415  they need much, which naming contestants does not

    return WORKLOADS


def _loaded(where: str) -> object:
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        msg = f"what the benchmark is to run cannot be imported: {error}. Name it as module:Name. given={where}"
        raise InvalidJobError(msg) from error
