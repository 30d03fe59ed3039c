"""A harness's state as bytes: what a checkpoint holds of a step, and the rows that its sink has.

the kind, in ASCII, with the version of what follows | newline | msgpack of Snapshot
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from mixedmode.changes import changes
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.process import incompatibilities
from mixedmode.testing.moment import Moment
from mixedmode.testing.step import Step

_KIND = b"mixedmode test snapshot 1\n"


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """`entries` are (stored key, value) in order. `identity` and `state_schema` (JSON) say whose state it is.

    `table`: Arrow IPC of the current rows of the main output.
    """

    identity: dict[str, Any]
    state_schema: bytes
    max_parallelism: int
    moment: Moment
    entries: list[tuple[bytes, bytes]]
    table: bytes

    def encode(self) -> bytes:
        """See `decode`."""
        return _KIND + msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Snapshot":
        """Inverse of `encode`. Raises CorruptStateError for other bytes."""
        try:
            return msgspec.msgpack.decode(data[len(_KIND) :] if data.startswith(_KIND) else b"", type=cls)
        except msgspec.MsgspecError as error:
            msg = (
                "these bytes are no snapshot of a test harness of this version. Give what snapshot() returned. "
                f"bytes={len(data)}, cause={error}"
            )
            raise CorruptStateError(msg) from error

    def check(self, step: Step, *, max_parallelism: int) -> None:
        """Raises InvalidJobError unless the step can read this state."""
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
    """JSON of an operator's states, and of what a process function declares."""
    declared: Callable[[], Mapping[str, Any]] | None = getattr(operator, "state_schema", None)
    states = [dict(state.as_json()) for state in operator.states]
    return json.dumps({"states": states, "declared": None if declared is None else declared()}).encode()


def encode_table(table: pa.Table) -> bytes:
    """Arrow IPC of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_table(data: bytes) -> pa.Table:
    """Inverse of `encode_table`."""
    return pa.ipc.open_stream(data).read_all()
