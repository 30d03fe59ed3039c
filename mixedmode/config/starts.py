"""The point of its input at which a job starts again: `mixedmode reset JOB --to earliest|latest|TIME|OFFSETS`. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from mixedmode.config.instants import parse_instant
from mixedmode.config.outside_texts import parse_json
from mixedmode.errors import InvalidJobError

__all__ = ["StartPoint"]


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Exactly one of: an end of the input, a point in time (UTC), {topic: {partition: offset}}."""

    at: Literal["earliest", "latest"] | None = None
    timestamp: datetime | None = None
    offsets: Mapping[str, Mapping[str, Any]] | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the point that a text names.  Raises InvalidJobError for any other text.

        >>> StartPoint.parse("2026-11-24T08:00:00+01:00").timestamp.isoformat()
        '2026-11-24T07:00:00+00:00'
        """
        if text in {"earliest", "latest"}:
            return cls(at="earliest" if text == "earliest" else "latest")
        offsets = _json(text)
        if isinstance(offsets, dict) and offsets and all(isinstance(one, dict) for one in offsets.values()):
            return cls(offsets=offsets)
        at = parse_instant(text)
        if at is None:
            msg = (
                "this is no point to start from. Give earliest, latest, a time with its offset from UTC and at most "
                "microseconds, such as 2026-11-24T08:00:00Z, or offsets of Kafka as JSON: "
                '{"orders": {"0": 120, "1": "latest"}}. '
                f"found={text}"
            )
            raise InvalidJobError(msg)
        return cls(timestamp=at)

    def __str__(self) -> str:
        if self.timestamp is not None:
            return self.timestamp.isoformat()
        return self.at or json.dumps(self.offsets)


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None
