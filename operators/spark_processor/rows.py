"""The rows of a call: what a class of Spark gets for a record, and what it emits.

A class of transformWithState gets and emits `Row`s, one of transformWithStateInPandas frames. Both get timestamps in
the time zone of Spark's session: rows with the zone, frames without. A record becomes a frame of one row, whose columns
have the types that Spark gives to a frame of this row alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark.sql.types import Row
from typing_extensions import override

from mixedmode.operators.process.context import Record
from mixedmode.operators.spark_processor.settings import ProcessorStep

__all__ = ["RowForm", "form_of"]


class RowForm(ABC):
    """The rows of a step in one of the two forms."""

    def __init__(self, step: ProcessorStep) -> None:
        self._zone = ZoneInfo(step.time_zone)
        self._timer_key = Row(*(field.name for field in step.keys))
        self._whole = {field.name for field in step.output if pa.types.is_integer(field.type)}

    @abstractmethod
    def input_of(self, record: Record, key: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the key of a record as a tuple, and the row or the frame of the record."""

    def timer_key_of(self, key: Any) -> Any:
        """Return the key of a timer: a Row, as Spark reads it from its state, with times in local time."""
        return self._timer_key(*map(_local, key if isinstance(key, tuple) else (key,)))

    @abstractmethod
    def output_of(self, results: Iterable[Any]) -> Iterator[Record]:
        """Yield the rows that a call emits, as they are checked for the step's output. Raise TypeError for others."""

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row in which the whole numbers of a column of them are no floats, as frames have them."""
        for name in self._whole:
            value = row.get(name)
            if isinstance(value, float) and value.is_integer():
                row[name] = int(value)
        return row


class _Rows(RowForm):
    def __init__(self, step: ProcessorStep) -> None:
        super().__init__(step)
        self._row = Row(*(field.name for field in step.records))
        self._is_zoned = any(map(_has_zoned, (field.type for field in step.records)))

    @override
    def input_of(self, record: Record, key: Any) -> tuple[tuple[Any, ...], Any]:
        values = [self._in_zone(value) for value in record.values()] if self._is_zoned else record.values()
        return self._key_of(key), self._row(*values)

    def _key_of(self, key: Any) -> tuple[Any, ...]:
        keys = key if isinstance(key, tuple) else (key,)
        return tuple(map(self._in_zone, keys)) if self._is_zoned else keys

    @override
    def output_of(self, results: Iterable[Any]) -> Iterator[Record]:
        for row in results:
            if not isinstance(row, Row) or not hasattr(row, "__fields__"):
                frame = ". For frames, set the step's `rows-as` to pandas" if hasattr(row, "columns") else ""
                msg = f"a class of transformWithState emits Rows with names, such as Row(user='a'){frame}: {row!r:.100}"
                raise TypeError(msg)
            yield self._checked(row.asDict(recursive=True))

    def _in_zone(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value if value.tzinfo is None else value.astimezone(self._zone)
        if isinstance(value, dict):
            return {name: self._in_zone(part) for name, part in value.items()}
        if isinstance(value, list | tuple):  # the pairs of a map are tuples
            return type(value)(map(self._in_zone, value))
        return value


class _Frames(RowForm):
    def __init__(self, step: ProcessorStep) -> None:
        super().__init__(step)
        import pandas as pd  # noqa: PLC0415 - only for classes that ask for it

        self._pandas = pd
        self._names = [field.name for field in step.records]
        self._nulls = [self._null_of(field.type) for field in step.records]
        self._times = {field.name: field.type.tz for field in step.output if pa.types.is_timestamp(field.type)}

    @override
    def input_of(self, record: Record, key: Any) -> tuple[tuple[Any, ...], Any]:
        values = [
            null if value is None else self._plain(value)
            for value, null in zip(record.values(), self._nulls, strict=True)
        ]
        keys = tuple(map(self._plain, key if isinstance(key, tuple) else (key,)))
        return keys, self._pandas.DataFrame([values], columns=self._names)

    @override
    def output_of(self, results: Iterable[Any]) -> Iterator[Record]:
        for frame in results:
            if not isinstance(frame, self._pandas.DataFrame):
                msg = f"a class of transformWithStateInPandas emits pandas.DataFrames: {frame!r:.100}"
                raise TypeError(msg)
            names = list(frame.columns)
            if len(set(names)) < len(names):
                msg = f"a frame has two columns of one name. columns={', '.join(map(str, names))}"
                raise TypeError(msg)
            columns = [[self._emitted(name, value) for value in frame[name]] for name in names]
            for values in zip(*columns, strict=True):
                yield self._checked(dict(zip(names, values, strict=True)))

    def _null_of(self, data_type: pa.DataType) -> Any:
        """Return what is NULL in a column of one row: NaN, NaT or None."""
        if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
            return float("nan")
        return self._pandas.NaT if pa.types.is_timestamp(data_type) else None

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        local = value if value.tzinfo is None else value.astimezone(self._zone).replace(tzinfo=None)
        return self._pandas.Timestamp(local).as_unit("ns")

    def _emitted(self, name: Any, value: Any) -> Any:
        """Return a value of a column of a frame as a Python value; NaN, NaT and NA are NULL."""
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, list | tuple | Mapping):
            return value
        if self._pandas.isna(value):
            return None
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, self._pandas.Timestamp):
            if value.nanosecond:
                msg = f"a time has nanoseconds, which the column would lose. column={name}, value={value}"
                raise ValueError(msg)
            value = value.to_pydatetime()
        if isinstance(value, datetime) and value.tzinfo is None and self._times.get(name) is not None:
            return value.replace(tzinfo=self._zone).astimezone(UTC)
        return value


def form_of(step: ProcessorStep) -> RowForm:
    """Return the form of the rows of a step."""
    return _Frames(step) if step.rows_as == "pandas" else _Rows(step)


def _local(value: Any) -> Any:
    return (
        value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo is not None else value
    )


def _has_zoned(data_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(data_type):
        return data_type.tz is not None
    return any(_has_zoned(data_type.field(i).type) for i in range(data_type.num_fields))
