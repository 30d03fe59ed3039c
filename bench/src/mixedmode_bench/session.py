"""The Spark session of a contestant, as a user of this program would have it.

All that run on Spark have the same settings, so that none of them gains by its session: the defaults of an embedded
session, and as many shuffle partitions as cores, because Spark's own 200 would slow its queries down on few cores.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession
from typing_extensions import override

from mixedmode.cli.machine import java_fact
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.session import open_session
from mixedmode_bench.contestant import Contestant

LIVE_SECONDS_MAX = 600.0  # a live run that takes longer is stuck; it is stopped, and the benchmark fails


class OnSpark(Contestant):
    """The common part of contestants on Spark: the session, from `start` to `close`. The first half of Contestant."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._opened: SparkSession | None = None
        self._session: SparkSession | None = None

    @override
    def missing(self) -> str | None:
        return None if _has_java() else "Java: `mixedmode doctor` says how to get it"

    @override
    def start(self, scratch: Path, cores: int) -> None:
        """Open a session. If this process has one already, use it as it is, and leave it open at the end."""
        self._session = SparkSession.getActiveSession()
        if self._session is None:
            spark: dict[str, str | int | bool] = {
                "master": f"local[{cores}]",
                "driver.memory": "4g",
                "sql.shuffle.partitions": cores,
                "ui.enabled": False,
                "local.dir": str(scratch / "spark"),
                "sql.warehouse.dir": str(scratch / "warehouse"),
            }
            job = Job("bench", sources={"none": Source.parquet(scratch, bounded=True)}, spark=spark)
            spec = job.sql("SELECT * FROM none").write(Sink.console()).spec
            self._session = self._opened = open_session(spec, log_folder=scratch / "logs")
        for key, value in self._settings.items():
            self._session.conf.set(key, value)

    @override
    def free_memory(self) -> None:
        """Shrink the heap to what is in use."""
        gateway = self.session.sparkContext._gateway  # noqa: SLF001 - the way to its JVM
        assert gateway is not None
        gateway.jvm.System.gc()

    @override
    def close(self) -> None:
        if self._opened is not None:
            self._opened.stop()
        elif self._session is not None:
            for key in self._settings:
                self._session.conf.unset(key)
        self._opened = self._session = None

    @property
    def session(self) -> SparkSession:
        """The session. Requires `start`."""
        assert self._session is not None, "not started"
        return self._session


@cache
def _has_java() -> bool:
    return java_fact(os.environ.get("JAVA_HOME")).version is not None
