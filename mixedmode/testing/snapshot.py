"""A harness's state as bytes: a step's part of a checkpoint, and the rows that its sink has.

Format: an ASCII text with the kind and version, a newline, then Snapshot as msgpack.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from mixedmode.changes import changes
from mixedmode.config.arguments import of_type
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.process import incompatibilities
from mixedmode.testing.moment import Moment
from mixedmode.testing.step import Step

_KIND = b"mixedmode test snapshot 1\n"


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state of a harness. `entries` are (stored key, value) in order.

    `identity` and `state_schema` (JSON) identify the step that the state belongs to.
    `table`: Arrow IPC of the current rows of the main output.
    """

    identity: dict[str, Any]
    state_schema: bytes
    max_parallelism: int
    moment: Moment
    entries: list[tuple[bytes, bytes]]
    table: bytes

    def encode(self) -> bytes:
        """Return the bytes that `decode` reads."""
        return _KIND + msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Snapshot":
        """Return the snapshot that `encode` wrote. Raises CorruptStateError for other bytes."""
        of_type(data, bytes, "restore: snapshot", "what snapshot() returned")
        try:
            return msgspec.msgpack.decode(data[len(_KIND) :] if data.startswith(_KIND) else b"", type=cls)
        except msgspec.MsgspecError as error:
            msg = (
                "these bytes are no snapshot of a test harness of this version. Give what snapshot() returned. "
                f"bytes={len(data)}, cause={error}"
            )
            raise CorruptStateError(msg) from error

    def check(self, step: Step, *, max_parallelism: int) -> None:
        """Raise InvalidJobError unless the step can read this state."""
        problems = list(self._problems(step, max_parallelism))
        if problems:
            msg = (
                f"{step.where}: the state in the snapshot cannot be read by this step: {'; '.join(problems)}. Put it "
                "back as it was, or start without the snapshot."
            )
            raise InvalidJobError(msg)

    def _problems(self, step: Step, max_parallelism: int) -> list[str]:
        problems = []
        if self.max_parallelism != max_parallelism:
            problems.append(
                f"max_parallelism was {self.max_parallelism} and is {max_parallelism} (it fixes the key group of every "
                "key for the life of a job)"
            )
        if self.identity != step.identity:
            problems.append(f"the step was changed ({changes(self.identity, step.identity)})")
        stored, now = json.loads(self.state_schema), json.loads(encode_state_schema(step.operator))
        if problems or stored == now:
            return problems
        if stored["declared"] and now["declared"]:
            return incompatibilities(stored["declared"], now["declared"])
        return [f"its states are others (stored {stored['states']}, now {now['states']})"]


def encode_state_schema(operator: KeyedOperator) -> bytes:
    """Return JSON of an operator's states, and of the states that a process function declares."""
    declared: Callable[[], Mapping[str, Any]] | None = getattr(operator, "state_schema", None)
    states = [dict(state.as_json()) for state in operator.states]
    return json.dumps({"states": states, "declared": None if declared is None else declared()}).encode()


def encode_table(table: pa.Table) -> bytes:
    """Return Arrow IPC of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_table(data: bytes) -> pa.Table:
    """Return the table that `encode_table` wrote."""
    return pa.ipc.open_stream(data).read_all()
