"""Point reads, answered together: requests that arrive while a batch waits or is read form the next batch.

A read of one key costs nearly as much as one of several, and so does each time that the event loop wakes up. So
requests that come soon after each other are gathered: a batch begins at the earliest GATHER_SECONDS after the batch
before. A request that comes alone does not wait.

All methods run in the server's event loop. A batch is read there, too: on a machine whose cores are busy, each change
of threads waits for a core, and for the interpreter's lock. But a batch has a thread if no snapshot is open yet, or if
the batch before has taken long, as from a slow disk; then all other requests go on.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.queryable.kept import KeptState
from mixedmode.queryable.keys import key_of_text
from mixedmode.queryable.snapshot import StateSnapshot
from mixedmode.serve.documents import Document
from mixedmode.serve.state import PAGE_BYTES_MAX, StateQuestion, document, document_of, rows_document
from mixedmode.sinks.shown import plain_rows, plain_values

__all__ = ["BATCH_MAX", "GATHER_SECONDS", "PointReads"]

BATCH_MAX = 256  # requests
GATHER_SECONDS = 0.008

_SECONDS_IN_LOOP = 0.005  # a batch that takes longer is followed by one in a thread

_Answer = Document | Exception


@dataclass
class PointReads:
    """The point reads of a job. One batch is read at a time."""

    state: KeptState

    def __post_init__(self) -> None:
        self._waiting: list[tuple[StateQuestion, asyncio.Future[Document]]] = []
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0  # the newest batch, by the clock of the event loop
        self._seconds = 0.0  # that its read took

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a batch."""
        return len(self._waiting)

    async def ask(self, question: StateQuestion) -> Document:
        """Return the answer to a question that names its keys.  Raises as StateQuestion.answer."""
        future: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(self._began + GATHER_SECONDS - loop.time())
            self._began = loop.time()
            first = self._waiting[0][0]
            batch = [pair for pair in self._waiting if pair[0].is_like(first)][:BATCH_MAX]
            taken = {id(future) for _, future in batch}
            self._waiting = [pair for pair in self._waiting if id(pair[1]) not in taken]
            read = partial(answers, self.state, [question for question, _ in batch])
            began = loop.time()
            if self._seconds < _SECONDS_IN_LOOP and self.state.has_open(first.epoch):
                found = read()
            else:
                found = await loop.run_in_executor(None, read)
            self._seconds = loop.time() - began
            for (_, future), answer in zip(batch, found, strict=True):
                if future.done():
                    continue  # the client has gone
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


def answers(state: KeptState, questions: Sequence[StateQuestion]) -> list[_Answer]:
    """Return the answer to each of some questions that differ in their keys only."""
    try:
        with state.snapshot(questions[0].epoch) as snapshot:
            found = _plain(snapshot, questions)
            if found is None and len(questions) > 1:
                found = _together(snapshot, questions)
        if found is not None:
            return list(found)
    except InvalidJobError:
        pass  # of one question, perhaps: each one gets an answer of its own
    except Exception as error:  # noqa: BLE001  # each request raises it
        return [error] * len(questions)
    return [_alone(state, question) for question in questions]


def _alone(state: KeptState, question: StateQuestion) -> _Answer:
    try:
        return rows_document(question.answer(state), question.keys)
    except Exception as error:  # noqa: BLE001  # the request raises it
        return error


def _plain(snapshot: StateSnapshot, questions: Sequence[StateQuestion]) -> list[Document] | None:
    """Return the answers of one read of all keys; None if a key is not plain, or if they are too large for one."""
    step = questions[0].step
    found = snapshot.plain_rows(step, [key for question in questions for key in question.keys], questions[0].name)
    arrays = [] if found is None else [column for column in found.columns.values() if isinstance(column, pa.Array)]
    if found is None or sum(column.nbytes for column in arrays) > PAGE_BYTES_MAX:
        return None
    names = (found.key_name, *found.columns)
    columns = [plain_values(one) if isinstance(one, pa.Array) else one for one in found.columns.values()]
    first, answers = 0, list[Document]()
    for question in questions:
        rows, missing = dict[bytes, Document](), list[str]()
        for at, key in enumerate(question.keys, first):
            place = found.places[at]
            if place is None:
                missing.append(key)
            else:
                rows[found.stored[at]] = dict(
                    zip(names, (found.keys[at].value, *[column[place] for column in columns]), strict=True)
                )
        first += len(question.keys)
        in_order = [rows[stored] for stored in sorted(rows)]
        answers.append(document(epoch=snapshot.epoch, step=step, name=found.name, rows=in_order, missing=missing))
    return answers


def _together(snapshot: StateSnapshot, questions: Sequence[StateQuestion]) -> list[Document] | None:
    """Return the answers of one read of all keys; None if it is too large for one."""
    step, name = questions[0].step, questions[0].name
    fields = snapshot.key_fields(step, name)
    keys = [[key_of_text(key, fields, is_prefix=False) for key in question.keys] for question in questions]
    answer, places = snapshot.read_keys(step, [key for own in keys for key in own], name)
    if answer.table.nbytes > PAGE_BYTES_MAX:
        return None
    rows, remaining = plain_rows(answer.table), iter(places)
    found = []
    for question in questions:
        own = [next(remaining) for _ in question.keys]
        missing = [key for key, places_of_key in zip(question.keys, own, strict=True) if not places_of_key]
        found.append(document_of(answer, [rows[at] for at in sorted({at for each in own for at in each})], missing))
    return found
