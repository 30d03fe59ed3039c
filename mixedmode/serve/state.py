"""Queryable state by HTTP: a question in the parameters of a request, and its answer as JSON or as an Arrow stream.

    /api/v1/state                 the steps, and the parts of their state   ?epoch=N
    /api/v1/state/STEP            ?key=A&key=B | ?prefix=A   ?name=PART  ?epoch=N  ?limit=N  ?after=NEXT

The rows are those of `read_state`. JSON has text for what it cannot represent (sinks/shown.py). An Arrow stream keeps
all types.

A value of a secret is replaced by its reference in JSON. An Arrow stream with such a value is refused.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import pyarrow as pa
from pyarrow import ipc

from mixedmode.config.outside_texts import whole_number
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.queryable.cursor import epoch_of_page
from mixedmode.queryable.kept import KeptState
from mixedmode.queryable.keys import key_of_text
from mixedmode.queryable.snapshot import StateAnswer, StateSnapshot
from mixedmode.secrets import has_secrets_in
from mixedmode.serve.documents import Document
from mixedmode.sinks.shown import plain_rows

__all__ = [
    "ARROW",
    "PAGE_BYTES_MAX",
    "StateQuestion",
    "arrow_stream",
    "document",
    "document_of",
    "prefers_arrow",
    "rows_document",
    "steps_document",
    "steps_epoch",
]

ARROW = "application/vnd.apache.arrow.stream"
_KEYS_DEFAULT = 1000
_KEYS_MAX: Mapping[bool, int] = {False: 10_000, True: 100_000}  #: {as Arrow: keys of a page}
PAGE_BYTES_MAX = 64 * 1024 * 1024
_NAMES = ("job", "key", "prefix", "name", "epoch", "limit", "after")
_NAMES_OF_STEPS = ("job", "epoch")
_POINTS_MAX = 16  # keys of a request that is answered together with others


class StateQuestion(NamedTuple):
    """A question about the state of a step; the fields are those of StateSnapshot.read, with keys as text."""

    step: str
    keys: tuple[str, ...] = ()
    prefix: str | None = None
    name: str | None = None
    epoch: int | None = None
    limit: int | None = None
    after: str | None = None

    @classmethod
    def of(cls, step: str, parameters: Sequence[tuple[str, str]], *, is_arrow: bool) -> Self:
        """Return the question in the parameters of a request.  Raises InvalidJobError for a wrong one."""
        keys = tuple(value for name, value in parameters if name == "key")
        single = _single([pair for pair in parameters if pair[0] != "key"], _NAMES)
        after, epoch = single.get("after"), _number(single, "epoch")
        if keys and after is not None:
            msg = "a request names its keys, so it has no further page: leave `after` out"
            raise InvalidJobError(msg)
        most = _KEYS_MAX[is_arrow]
        limit = _number(single, "limit")
        if limit is None:
            limit = None if keys else _KEYS_DEFAULT
        if len(keys) > most or (limit is not None and not 1 <= limit <= most):
            msg = f"a page has 1 to {most} keys; `after` asks for the next page. keys={len(keys)}, limit={limit}"
            raise InvalidJobError(msg)
        if epoch is None and after is not None:
            epoch = epoch_of_page(after)
        return cls(step, keys, single.get("prefix"), single.get("name"), epoch, limit, after)

    def is_like(self, other: Self) -> bool:
        """Return whether the other question differs at most in its keys."""
        own = (self.step, self.prefix, self.name, self.epoch, self.limit, self.after)
        return own == (other.step, other.prefix, other.name, other.epoch, other.limit, other.after)

    @property
    def is_point_read(self) -> bool:
        """Return whether the question names a few keys, and nothing limits the rows of its answer."""
        return 1 <= len(self.keys) <= _POINTS_MAX and self.prefix is None and self.limit is None

    def answer(self, state: KeptState) -> StateAnswer:
        """Return the rows.  Raises the errors of open_state and StateSnapshot.read."""
        found = state.ask(self._read, self.epoch)
        if found.table.nbytes > PAGE_BYTES_MAX:
            msg = (
                "the page is too large for the server. Ask for fewer keys with `limit`, or use `mixedmode state` or "
                f"mixedmode.read_state. bytes={found.table.nbytes}, bytes_max={PAGE_BYTES_MAX}"
            )
            raise InvalidJobError(msg)
        return found

    def _read(self, state: StateSnapshot) -> StateAnswer:
        fields = state.key_fields(self.step, self.name)
        keys = [key_of_text(key, fields, is_prefix=False) for key in self.keys]
        prefix = None if self.prefix is None else key_of_text(self.prefix, fields, is_prefix=True)
        return state.read(
            self.step, keys=keys or None, prefix=prefix, name=self.name, limit=self.limit, after=self.after
        )


def steps_epoch(parameters: Sequence[tuple[str, str]]) -> int | None:
    """Return the epoch in a request for the steps; None: the newest.  Raises InvalidJobError for a wrong request."""
    return _number(_single(parameters, _NAMES_OF_STEPS), "epoch")


def _single(parameters: Sequence[tuple[str, str]], known: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parameters:
        if name not in known:
            msg = f"the request has an unknown parameter.{did_you_mean(name, known)} Known: {', '.join(known)}."
            raise InvalidJobError(msg)
        if name in found:
            msg = f"only `key` may occur several times. parameter={name}"
            raise InvalidJobError(msg)
        found[name] = value
    return found


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        msg = f"{name} is not a whole number from 0 on. found={text[:200]}"
        raise InvalidJobError(msg)
    return number


def prefers_arrow(accept: str) -> bool:
    """Return whether the header Accept of a request names Arrow.

    >>> prefers_arrow("application/json, application/vnd.apache.arrow.stream;q=0.9"), prefers_arrow("*/*")
    (True, False)
    """
    return ARROW in {part.partition(";")[0].strip().lower() for part in accept.split(",")}


def steps_document(state: StateSnapshot) -> Document:
    """Return the steps of a job, and the parts of their state with the key columns."""
    return {
        "epoch": state.epoch,
        "steps": [
            {
                "step": step,
                "parts": [
                    {
                        "name": name,
                        "key": [
                            {"name": field.name, "type": str(field.type)} for field in state.key_fields(step, name)
                        ],
                    }
                    for name in state.names(step)
                ],
            }
            for step in state.steps
        ],
    }


def rows_document(answer: StateAnswer, keys: Sequence[str]) -> Document:
    """Return the answer to a question for JSON.  keys: those of the question."""
    return document_of(answer, plain_rows(answer.table), [keys[at] for at in answer.missing])


def document_of(answer: StateAnswer, rows: Sequence[Document], missing: Sequence[str]) -> Document:
    """Return an answer for JSON that has these rows.  missing: the keys that have none."""
    return document(
        epoch=answer.epoch, step=answer.step, name=answer.name, rows=rows, missing=missing, following=answer.next
    )


def document(
    *,
    epoch: int,
    step: str,
    name: str,
    rows: Sequence[Document],
    missing: Sequence[str],
    following: str | None = None,
) -> Document:
    """Return an answer for JSON.  following: where the next page begins."""
    return {"epoch": epoch, "step": step, "name": name, "rows": rows, "missing": missing, "next": following}


def arrow_stream(answer: StateAnswer) -> bytes:
    """Return an answer as an Arrow stream.  Raises InvalidJobError if it contains a secret."""
    table, sink = answer.as_table(), pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    if has_secrets_in(data):
        msg = (
            "a row has the value of a variable of the environment that the job names as ${env:...}, and the server "
            "sends no such value. Ask for JSON, which has the name of the variable instead, or use `mixedmode state`."
        )
        raise InvalidJobError(msg)
    return data
