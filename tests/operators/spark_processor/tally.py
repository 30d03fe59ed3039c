"""A class for Spark's transformWithState, in a module that workers can import."""

from collections.abc import Iterator
from typing import Any, ClassVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Tally(StatefulProcessor):
    """Counts the rows of a user, lists the amounts, sums them by parity; each row sets a timer for 4 minutes later."""

    OUTPUT: ClassVar[str] = "user string, what string, text string"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n bigint, last timestamp")
        self.amounts = handle.getListState("amounts", "amount bigint")
        self.sums = handle.getMapState("sums", "parity string", "total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            before = self.count.get()
            self.count.update(((before[0] if before else 0) + 1, row.at))
            self.amounts.appendValue((row.amount,))
            parity = ("none" if row.amount is None else "odd" if row.amount % 2 else "even",)
            total = self.sums.getValue(parity)
            self.sums.updateValue(parity, ((total[0] if total else 0) + (row.amount or 0),))
            self.handle.registerTimer(int(row.at.timestamp() * 1000) + 240_000)
            yield Row(user=key[0], what="row", text=self._text())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(user=key[0], what="timer", text=f"{expiredTimerInfo.getExpiryTimeInMs()} {self._text()}")

    def _text(self) -> str:
        amounts = [one[0] for one in self.amounts.get()]
        sums = sorted((name[0], total[0]) for name, total in self.sums.iterator())
        return f"{self.count.get()} {amounts} {sums} {sorted(self.handle.listTimers())}"
