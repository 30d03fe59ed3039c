"""A source of a streaming DataFrame, with its watermark.

The watermark of a job follows all records of a source, and a column of time that is computed before `withWatermark` is
a computed column of the source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import companion, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import columns_over, projected
from mixedmode.analysis.plan_text import PlanText
from mixedmode.analysis.same_plans import PASSED, TextInput
from mixedmode.analysis.stream_source import StreamSource, refuse, stream_source
from mixedmode.analysis.written_sql import free_name
from mixedmode.config.calls import is_column
from mixedmode.durations import format_duration_ms

__all__ = ["TimedSource", "delay_ms_of"]

_Java = Any  # an object of the JVM


@dataclass(frozen=True, slots=True)
class TimedSource:
    """A source with its watermark, if it has one.

    source: its settings. text: the text of its rows above the watermark. top: the node with these rows. delay_ms: that
    of the watermark; None: there is none.
    """

    source: StreamSource
    text: PlanText
    top: _Java
    delay_ms: int | None

    @classmethod
    def of(cls, session: SparkSession, leaf: _Java, below: Sequence[_Java], time: _Java | None, name: str) -> Self:
        """Return a source.

        leaf: its node. below: the nodes between it and the watermark, the lowest one first. time: the node of the
        watermark, if there is one. name: that of the source in the job.
        """
        other = next((kind for kind in map(kind_of, below) if kind not in {"Project", *PASSED}), None)
        if other is not None:
            refuse(other, "The watermark follows all records of the source here: call withWatermark before this part.")
        found = stream_source(session, leaf)
        columns = [(column, str(column.name())) for column in items_of(leaf.output())]
        if time is None:
            return cls(found, PlanText.over(session, TextInput.of_columns(name, leaf, columns)), leaf, None)
        delay_ms, values = delay_ms_of(session, time), _values(session, below)
        event_time, computed = _event_time(session, time.eventTime(), columns, values)
        arguments: dict[str, Any] = {"out_of_orderness": format_duration_ms(delay_ms), "event_time": event_time}
        of_columns = [column for column, _ in columns]
        if computed is not None:
            arguments["computed_columns"] = {event_time: computed}
            columns.append((time.eventTime(), event_time))
            of_columns.append(values[id_of(time.eventTime())])
        timed = [id_of(time.eventTime()), *(id_of(one) for one, own in columns if own == event_time)]
        text = PlanText.over(
            session, TextInput(name, leaf, columns, of_columns), timed=timed, times=[event_time.lower()]
        )
        if values:
            known = {id_of(column): column for column, _ in columns}
            text.select([(one, known.get(id_of(one), values[id_of(one)])) for one in items_of(time.output())])
        top = time if values else leaf
        return cls(StreamSource(found.format, {**found.arguments, **arguments}), text, top, delay_ms)


def delay_ms_of(session: SparkSession, time: _Java) -> int:
    """Return the delay of a watermark.  time: its node."""
    return int(companion(session, "plans.logical.EventTimeWatermark").getDelayMs(time.delay()))


def _values(session: SparkSession, below: Sequence[_Java]) -> Mapping[int, _Java]:
    """Return {id: value over the source} of the columns that nodes compute."""
    values = dict[int, _Java]()
    for node in below:
        if kind_of(node) == "Project":
            values = projected(session, node, values)
    return values


def _event_time(
    session: SparkSession, column: _Java, columns: Sequence[tuple[_Java, str]], values: Mapping[int, _Java]
) -> tuple[str, str | None]:
    """Return the name of the event time in the source, and its text; None: the records have it.

    columns: those of the source, and their names.
    """
    value = values.get(id_of(column), column)
    known = {id_of(one): name for one, name in columns}
    if kind_of(value) == "AttributeReference":
        return known[id_of(value)], None
    taken = {name.lower() for name in known.values()}
    name = str(column.name())
    name = free_name(name, taken) if name.lower() in taken or not is_column(name) else name
    (text,) = columns_over(session, columns, [value])
    return name, text
