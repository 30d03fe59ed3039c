"""A class for jobs on Spark, whose workers import it: it answers with the upper case of `k`."""

from collections.abc import Sequence
from typing import Any

from mixedmode.process import AsyncMapFunction, Request


class Upper(AsyncMapFunction):
    """The answer to `k` is `upper`. The first call of each object fails."""

    has_failed = False

    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        if not self.has_failed:
            self.has_failed = True
            raise ConnectionResetError
        return [{"upper": request["k"].upper()} for request in requests]
