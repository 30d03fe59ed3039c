"""Opens the sources of a job for its analysis, and collects their mistakes."""

from pyspark.sql import SparkSession

from mixedmode.analysis.event_times import event_time_of, partition_column_of
from mixedmode.analysis.problems import collecting
from mixedmode.config import JobParts
from mixedmode.errors import MixedmodeError
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.open import open_source
from mixedmode.sources.source import OpenSource


class OpenSources:
    """The opened sources, and their event-time and partition columns, by source.

    found: the mistakes. unknown: the names of the sources that are wrong. untimed: those whose event time is in doubt.
    """

    def __init__(self, session: SparkSession, parts: JobParts, where: Where) -> None:
        """Open the valid sources of a job."""
        self.opened: dict[str, OpenSource] = {}
        self.event_times: dict[str, str] = {}
        self.partitions: dict[str, str] = {}
        self.found: list[MixedmodeError] = []
        self.unknown, self.untimed = set(parts.unknown), set(parts.untimed)
        for name, source in parts.spec.sources.items():
            with collecting(self.found):
                self.opened[name] = open_source(session, source, where=where("sources", name))
            if name not in self.opened:
                self.unknown.add(name)
                continue
            schema, has_event_time = self.opened[name].schema, False
            with collecting(self.found):
                event_time = event_time_of(source, schema, where("sources", name, "event-time"))
                self.event_times |= {} if event_time is None else {name: event_time}
                has_event_time = True
            if not has_event_time:
                self.untimed.add(name)
            with collecting(self.found):
                column = partition_column_of(source, schema, where("sources", name, "watermark", "partition-column"))
                self.partitions |= {} if column is None else {name: column}
