"""The process function under test, in a module of its own, because Spark's tasks import it."""

from typing_extensions import override

from mixedmode.process import Context, KeyedProcessFunction, Record, Rows, ValueState

OUTPUT_DDL = "k long, n long, total double"
DAY_US = 86_400_000_000


class CountAndSum(KeyedProcessFunction):
    """Counts the records of a key and adds up their values; gives both at each record."""

    count = ValueState(int, default=0)
    total = ValueState(float, default=0.0)

    @override
    def process_element(self, record: Record, context: Context) -> Rows:
        self.count.value = n = self.count.value + 1
        self.total.value = total = self.total.value + record["v"]
        return {"k": context.current_key, "n": n, "total": total}


class CountAndRemind(CountAndSum):
    """The same, and asks at each record to be called a day after it."""

    @override
    def process_element(self, record: Record, context: Context) -> Rows:
        assert context.timestamp is not None, "the input has an event time"
        context.timers.register_event_time_timer(context.timestamp + DAY_US)
        return super().process_element(record, context)
