"""Opens the sources and dimensions of a job for its analysis, and collects their mistakes."""

from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from mixedmode.analysis.computed_columns import check_computed_columns
from mixedmode.analysis.event_times import event_time_of, partition_column_of
from mixedmode.analysis.problems import collecting
from mixedmode.config import JobParts
from mixedmode.errors import MixedmodeError
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.open import open_source
from mixedmode.sources.source import OpenSource
from mixedmode.sources.versions import HasVersions


class OpenSources:
    """The opened sources, and their event-time and partition columns, by source; and the opened dimensions.

    found: the mistakes. unknown, unknown_dimensions: the names of those that are wrong. untimed: the sources whose
    event time is in doubt.
    """

    def __init__(self, session: SparkSession, parts: JobParts, where: Where) -> None:
        """Open the valid sources of a job."""
        self.opened: dict[str, OpenSource] = {}
        self.dimensions: dict[str, HasVersions] = {}
        self.event_times: dict[str, str] = {}
        self.time_zones: dict[str, str] = {}  # of event times that are dates or local times
        self.partitions: dict[str, str] = {}
        self.found: list[MixedmodeError] = []
        self.unknown, self.untimed = set(parts.unknown), set(parts.untimed)
        self.unknown_dimensions = set(parts.unknown_dimensions)
        for name, source in parts.spec.sources.items():
            with collecting(self.found):
                opened = open_source(session, source, where=where("sources", name))
                check_computed_columns(session, source, opened, partial(where, "sources", name))
                self.opened[name] = opened
            if name not in self.opened:
                self.unknown.add(name)
                continue
            schema, has_event_time = self.opened[name].schema, False
            with collecting(self.found):
                event_time = event_time_of(source, schema, where("sources", name, "event-time"))
                if event_time is not None:
                    self.event_times[name] = event_time
                    if not isinstance(schema[event_time].dataType, TimestampType):
                        self.time_zones[name] = str(session.conf.get("spark.sql.session.timeZone"))
                has_event_time = True
            if not has_event_time:
                self.untimed.add(name)
            with collecting(self.found):
                column = partition_column_of(source, schema, where("sources", name, "watermark", "partition-column"))
                self.partitions |= {} if column is None else {name: column}
        for name, table in parts.spec.dimensions.items():
            with collecting(self.found):
                dimension = open_source(session, table, where=where("dimensions", name))
                assert isinstance(dimension, HasVersions), table
                self.dimensions[name] = dimension
            if name not in self.dimensions:
                self.unknown_dimensions.add(name)
