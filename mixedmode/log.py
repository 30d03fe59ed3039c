"""Log lines of the logger tree `mixedmode`, as text or as JSON, on standard error.

A program that imports mixedmode configures logging itself; importing mixedmode installs nothing. The command line and
the processes of Spark's tasks are mixedmode's own, and write the lines below. Text, then JSON:

    2026-03-01 08:00:00.250 UTC INFO  mixedmode.run: epoch committed, epoch=12, records=5000
    {"time":"2026-03-01T08:00:00.250Z","level":"INFO","logger":"mixedmode.run","message":"epoch committed",...}

A record has named values in `extra={FIELDS: {...}}`. A value that was looked up as a secret is replaced by its name.

Invariants (tests/test_log.py):
  I1  a record without a traceback is one line, whatever its message and values hold; as JSON every record is one line
  I2  no line has a secret that this process has looked up
"""

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from typing_extensions import override

from mixedmode.secrets import hidden

TREE = "mixedmode"
#: the logger of the events of a run; the display of the command line shows the same events
RUN = f"{TREE}.run"
FIELDS = "mixedmode_fields"
#: environment variables with the defaults of the command line's options; tasks have them too
FORMAT_VARIABLE, LEVEL_VARIABLE = "MIXEDMODE_LOG_FORMAT", "MIXEDMODE_LOG_LEVEL"
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}


class LogFormat(StrEnum):
    """The form of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TextLines(logging.Formatter):
    """Formats a record as a line of text, followed by its traceback, if it has one."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        values = "".join(f", {name}={value}" for name, value in _fields(record).items())
        text = hidden(f"{record.getMessage()}{values}").translate(_CONTROLS)
        trace = hidden(_traceback(self, record))
        line = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC {record.levelname:<5} {record.name}: {text}"
        return f"{line}\n{trace}" if trace else line


class JsonLines(logging.Formatter):
    """Formats a record as an object of JSON on one line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        own = {
            "time": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = _traceback(self, record)
        values = {name: value for name, value in _fields(record).items() if name not in own}
        document = {**own, **values, **({"traceback": trace} if trace else {})}
        return json.dumps(_without_secrets(document), separators=(",", ":"), default=lambda value: hidden(str(value)))


@contextmanager
def lines_on_stderr(form: LogFormat, level: LogLevel, *, leaves_out: tuple[str, ...] = ()) -> Iterator[None]:
    """Write log lines to standard error during the `with` block, also in the tasks of a session that is opened in it.

    leaves_out: names of loggers that have no lines. Other libraries have lines for their warnings, except py4j, whose
    warnings also arrive as exceptions.
    """
    tree, root = logging.getLogger(TREE), logging.getLogger()
    handler = _handler(form)
    handler.addFilter(lambda record: record.name not in leaves_out and Path(record.pathname).parent.name != "py4j")
    level_before = tree.level
    root.addHandler(handler)
    tree.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        tree.setLevel(level_before)


def of_tasks() -> dict[str, str]:
    """Return the variables with which tasks log like this process: its format, and the level of `mixedmode`.

    The environment of this process stays as it is, as the programs that it starts have options of their own. Where
    lines_on_stderr has not been called, its variables come first.
    """
    level = logging.getLevelName(logging.getLogger(TREE).getEffectiveLevel())
    known = level.lower() if level.lower() in list(LogLevel) else LogLevel.WARNING
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _StandardError):
            form = LogFormat.JSON if isinstance(handler.formatter, JsonLines) else LogFormat.TEXT
            return {FORMAT_VARIABLE: form, LEVEL_VARIABLE: known}
    return {
        FORMAT_VARIABLE: os.environ.get(FORMAT_VARIABLE, LogFormat.TEXT),
        LEVEL_VARIABLE: os.environ.get(LEVEL_VARIABLE, known),
    }


def log_in_task() -> None:
    """Write log lines in a process of tasks, from its start to its end, as its environment says (see `of_tasks`)."""
    form, level = os.environ.get(FORMAT_VARIABLE), os.environ.get(LEVEL_VARIABLE, "")
    logging.getLogger().addHandler(_handler(LogFormat.JSON if form == LogFormat.JSON else LogFormat.TEXT))
    logging.getLogger(TREE).setLevel(level.upper() if level in list(LogLevel) else logging.WARNING)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to standard error as it is at the moment of writing."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _handler(form: LogFormat) -> logging.Handler:
    handler = _StandardError()
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines())
    return handler


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _without_secrets(getattr(record, FIELDS, {}))
    return found


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, Mapping):
        return {str(name): _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return value
