"""Tables of Delta Lake as sources. A stream begins with the table as it is, and reads on what commits add."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.connectors.lakehouse.source import NO_LIMIT, LakehouseSource
from mixedmode.connectors.lakehouse.spec import CHOOSES_VERSION
from mixedmode.errors import InvalidJobError
from mixedmode.sources.source import Admission, ChecksReading

__all__ = ["DeltaSource"]

#: options of Delta's reader, in lower case, with which a stream reads past commits that remove rows
_SKIPS_REMOVALS = ("skipchangecommits", "ignoredeletes", "ignorechanges")
#: those with which a batch reads something else than the table as it is
_READS_OTHERS = {*CHOOSES_VERSION, "readchangefeed", "readchangedata"}
_READ_ANEW = "Give the job a new execution.checkpointing.dir and output: it then reads the table as it is now."
_BEGIN_LATER = (
    "Name a version or a time after the RESTORE in `starting`, and give the job a new execution.checkpointing.dir; or "
    "remove `starting`: the job then reads the table as it is now."
)


class DeltaSource(LakehouseSource, ChecksReading):
    """A table of Delta Lake in a session."""

    @override
    def batch(self) -> DataFrame:
        if self.source.starting is None:
            return self.read({**self.options, **self._version()})
        msg = (
            f"{self.where}: Delta reads a table from a version on only as a stream, and batch mode has none. "
            f"Remove `starting`, or set execution.runtime-mode to mixed. place={self.source.place}"
        )
        raise InvalidJobError(msg)

    @override
    def stream(self, admission: Admission) -> DataFrame:
        return self.read_stream({**_limits(admission), **self._start(), **self.options})

    @override
    def check_reading(self, before: str, now: str) -> None:
        """Raise InvalidJobError if rows were restored, which Delta's stream reads again if it skips their removal."""
        if now != before and any(self._has_option(name) for name in _SKIPS_REMOVALS):
            self._check_restores(_version_of(before), _version_of(now))

    def _check_restores(self, first: int | None, last: int | None) -> None:
        """first, last: the versions between which an epoch has read.

        first: None for the first epoch. Without `starting`, that reads the table as it is, and no commit by itself.
        """
        begins = first is None
        if last is None or (begins and self.source.starting is None):
            return
        history = f"DESCRIBE HISTORY {self._place} LIMIT"
        (newest,) = self.session.sql(f"{history} 1").collect()
        oldest = self._oldest_read(first)
        rows = self.session.sql(f"{history} {max(newest.version - oldest, 0) + 1}").where("operation = 'RESTORE'")
        if begins and self.start_ms is not None:
            rows = rows.where(f"unix_millis(timestamp) >= {self.start_ms}")
        for row in rows.collect():
            if oldest <= row.version <= last and self._reads_restored(row.operationMetrics):
                msg = (
                    f"{self.where}: the Delta table was set back (RESTORE), and its stream, which skips the removal "
                    "of rows as the source's options say, would read rows again that have come back. Nothing of the "
                    f"epoch was committed. {_BEGIN_LATER if begins else _READ_ANEW} version={row.version}, "
                    f"place={self.source.place}"
                )
                raise InvalidJobError(msg)

    def _oldest_read(self, first: int | None) -> int:
        """Return the version with which an epoch begins; 0 if only a time is known.  first: see _check_restores."""
        if first is not None:
            return first
        assert self.source.starting is not None, self.source
        return self.source.starting.version or 0

    def _reads_restored(self, metrics: Mapping[str, str]) -> bool:
        """Return whether a stream reads files that came back; with skipChangeCommits, it skips a commit that also
        removes files.
        """
        if metrics.get("numRestoredFiles") == "0":
            return False
        return metrics.get("numRemovedFiles") == "0" or not self._has_option("skipchangecommits")

    def _has_option(self, name: str) -> bool:
        return any(key.lower() == name and value.lower() == "true" for key, value in self.options.items())

    @override
    def newest_version(self) -> tuple[str, dict[str, str]]:
        history = self.session.sql(f"DESCRIBE HISTORY {self._place} LIMIT 1")
        # with its time, because a table that was dropped and created again has the same numbers
        (newest,) = history.selectExpr("version", "date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS at").collect()
        return f"version {newest.version} of {newest.at}", {"versionAsOf": str(newest.version)}

    def _version(self) -> dict[str, str]:
        """Return the option that reads the newest version, unless the options of the job say what a batch reads.

        Without a version, Spark returns the rows of an equal frame that the program has cached, which may be older.
        """
        return {} if _READS_OTHERS & {name.lower() for name in self.options} else self.newest_version()[1]

    def _start(self) -> dict[str, str]:
        starting = self.source.starting
        if starting is None:
            return {}
        if starting.version is not None:
            return {"startingVersion": str(starting.version)}
        assert self.start_ms is not None, starting
        at = datetime.fromtimestamp(self.start_ms / 1000, UTC)  # with its offset, whatever the session's time zone is
        return {"startingTimestamp": at.isoformat(sep=" ", timespec="milliseconds")}

    @property
    def _place(self) -> str:
        return f"delta.{quoted(self.source.path)}" if self.source.path else self.name


def _limits(admission: Admission) -> dict[str, str]:
    files = str(admission.max_files or NO_LIMIT)
    if admission.max_bytes is None:
        return {"maxFilesPerTrigger": files}
    return {"maxFilesPerTrigger": files, "maxBytesPerTrigger": str(admission.max_bytes)}


def _version_of(offset: str) -> int | None:
    """Return the version in a line of Spark's offset log of a Delta table; None if the line has none."""
    return None if offset in {"", "-"} else int(json.loads(offset)["reservoirVersion"])
