"""A class for jobs on Spark, whose workers import it: its service is away."""

from collections.abc import Sequence
from typing import Any

from mixedmode.process import AsyncMapFunction, Request


class Away(AsyncMapFunction):
    """No call reaches the service."""

    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        msg = f"nobody answers\nabout {requests[0]['k']}"
        raise ConnectionRefusedError(msg)
