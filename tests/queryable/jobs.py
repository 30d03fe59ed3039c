"""Jobs whose epochs run without Spark and leave a real checkpoint folder, and reads of their state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from typing_extensions import override

from mixedmode import Job, Sink, Source
from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.manifest import encode_identity, encode_manifest
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import JobIdentity, Manifest
from mixedmode.executor.local_run import LocalRun
from mixedmode.executor.protocol import StageSettings
from mixedmode.job import Stream
from mixedmode.state.merging import FAN_IN
from mixedmode.tasks.timing import Timing
from mixedmode.testing.local_plan import local_plan
from mixedmode.testing.schemas import schema_of

DDL = "k string, v bigint, at timestamp"
MINUTE = 60_000_000
Row = Mapping[str, Any]


class _Run(LocalRun):
    fan_in = FAN_IN

    @override
    def _settings(self, timing: Timing, *, is_batch: bool) -> StageSettings:
        return replace(super()._settings(timing, is_batch=is_batch), fan_in=self.fan_in)


class RunningJob:
    """A job over rows of `DDL`; times are minutes. Each epoch is committed to `folder / "checkpoints"`."""

    def __init__(
        self,
        folder: Path,
        build: Callable[[Job], Any],
        *,
        ddl: str = DDL,
        clock_ms: int = 0,
        fan_in: int = FAN_IN,
        sources: Sequence[str] = ("t",),
    ) -> None:
        """fan_in: how many runs are merged."""
        (folder / "in").mkdir(parents=True)
        source = Source.json(folder / "in", schema=ddl, event_time="at", out_of_orderness="0s")  # is never read
        job = Job(
            "states",
            sources=dict.fromkeys(sources, source),
            mode="streaming",
            parallelism=2,
            max_parallelism=8,
            checkpoint_dir=folder / "checkpoints",
        )
        built, sink = build(job), Sink.parquet(folder / "out")
        spec = (job.output("out", built, sink) if isinstance(built, Stream) else built.write(sink)).spec
        plan = local_plan(spec, lambda *place: ".".join(map(str, place)))
        self.plan = plan
        self.schema = schema_of(ddl, where="ddl")
        self.checkpoints = folder / "checkpoints"
        self.log = CheckpointLog(ObjectStore(self.checkpoints))
        self.log.store.put_new(paths.JOB, encode_identity(JobIdentity("states", 8, plan.fingerprints)))
        self.run = _Run(spec, plan, folder, clock_ms)
        self.run.fan_in = fan_in
        self.manifests: list[Manifest] = []

    def epoch(self, rows: Sequence[Row] | Mapping[str, Sequence[Row]], *, parallelism: int | None = None) -> Manifest:
        """Run a live epoch over the rows of the source, or over those of each source by name, and commit it."""
        by_source = rows if isinstance(rows, Mapping) else {"t": rows}
        tables = {source: [self.table(own)] for source, own in by_source.items()}
        return self._commit(lambda: self.run.run_live(tables), parallelism)

    def table_epoch(self, table: pa.Table) -> Manifest:
        """Run a live epoch over a table of the source, and commit it."""
        return self._commit(lambda: self.run.run_live({"t": [table]}), None)

    def backlog(self, rows: Sequence[Row]) -> Manifest:
        """Run the backlog over the rows, and commit it."""
        return self._commit(lambda: self.run.run_backlog({"t": [self.table(rows)]}), None)

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table of the source; `at` in minutes."""
        scaled = [{**row, "at": row["at"] * MINUTE} for row in rows]
        columns = [pa.array([row.get(field.name) for row in scaled], field.type) for field in self.schema]
        return pa.table(columns, schema=self.schema)

    def _commit(self, runs: Callable[[], None], parallelism: int | None) -> Manifest:
        if parallelism is not None:
            spec = self.run._spec
            self.run._spec = spec.model_copy(update={"parallelism": parallelism})  # as by a rescale between two epochs
        runs()
        manifest = self.run._latest  # a local run commits nothing itself
        assert manifest is not None
        assert self.log.store.put_new(paths.manifest_path(manifest.epoch), encode_manifest(manifest))
        self.manifests.append(manifest)
        return manifest


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows in an order that does not depend on the store."""
    return sorted(table.to_pylist(), key=repr)
