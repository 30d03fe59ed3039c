"""A Kafka topic as an output: publishing sends an epoch's rows, and then writes a note that they were sent.

    manifest -> all rows of the epoch to the topic -> the note -> staged files deleted

Guarantee: every row of a committed epoch is sent at least once, and no row of an epoch that is not committed. Kafka
and the note cannot change atomically, so after a crash between them the epoch is sent again. A repeated record has the
same key, value and headers. The headers (kafka_rows.py) distinguish it from every other record of the job. An epoch
that was noted is not sent again. Within a key, the first copies of the records are in the order of the changes.

Going back to an older checkpoint rolls nothing back. Records of later epochs stay in the topic. The records that
replace them follow with a higher generation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from typing_extensions import override

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.types import Epoch, Generation, StagedFile
from mixedmode.connectors.kafka.admin import with_patience
from mixedmode.connectors.kafka.errors import kafka_problem, without_connector
from mixedmode.connectors.kafka.rows import RecordShape, records_of
from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.crash_points import reach
from mixedmode.errors import FencedError, MixedmodeError, RetryableError
from mixedmode.operators.interface import OP_COLUMN
from mixedmode.secrets import hidden, resolve, resolve_all
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.staged import StagedSink
from mixedmode.spark.errors import innermost

_SENT = DocumentKind("mixedmode-sent", 1, "the note of what was sent to a topic")
_NONE = Epoch(-1)


@dataclass(frozen=True, slots=True)
class _Sent:
    """All epochs up to `epoch` were sent, as far as `generation`, the start that sent the last of them, knows."""

    epoch: Epoch
    generation: Generation


class KafkaSink(StagedSink):
    """A topic that receives a record for every row."""

    def __init__(self, sink: KafkaSinkSpec, context: SinkContext) -> None:
        """Store the settings; access nothing outside."""
        super().__init__(context.staging)
        self._sink = sink
        self._context = context
        self._shape: RecordShape | None = None

    @override
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Look for the topic, and start a producer, so that a mistake is found before the first epoch, not after it."""
        own = tuple(field for field in fields if field.name not in {OP_COLUMN, EPOCH_COLUMN})
        self._shape = RecordShape(own, tuple(key_columns))
        self._check_topic()
        if is_fresh:
            self._note(_NONE)  # overwrites the note of a former output of this name

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Send the staged rows; an epoch without rows costs nothing."""
        if not staged:
            return
        assert self._shape is not None, "a sink is prepared before it publishes"
        sent = self._sent()
        if sent is not None and sent.generation > self._context.generation:
            msg = (
                "a newer start of this job has sent its output to the topic, so this one stops without sending more. "
                "Nothing is lost: the other one goes on. If both were started by mistake, stop the one that is not "
                f"wanted. topic={self._sink.topic}, epoch={epoch}"
            )
            raise FencedError(msg)
        if not self._is_done(sent, epoch, staged):
            session, context = self._context.session, self._context
            records = records_of(session, self.store, staged, self._shape, context.job, epoch)
            try:
                self._send(records)
            except (PySparkException, Py4JJavaError) as error:
                raise self._not_sent(error, epoch) from error
            reach("kafka-sent", epoch)
            self._note(epoch)
        self.delete_staged(staged)

    @override
    def may_have(self, epoch: Epoch) -> bool:
        """Return whether the note says that an epoch was sent; True if there is no note."""
        sent = self._sent()
        return sent is None or epoch <= sent.epoch

    @override
    def newest_published(self) -> Epoch | None:
        sent = self._sent()
        return None if sent is None or sent.epoch == _NONE else sent.epoch

    @override
    def roll_back(self, after: Epoch) -> int:
        """Delete the staged files that were not sent, without counting them; sent records stay in the topic."""
        sent = self._sent()
        if sent is not None and sent.epoch > after:
            self._note(after)
        return super().roll_back(after)

    def _is_done(self, sent: _Sent | None, epoch: Epoch, staged: Sequence[StagedFile]) -> bool:
        """Return whether an epoch was sent before.

        It was if the note says so. It also was if there is no note and no staged file of the epoch: then a savepoint
        was restored into this folder.
        """
        if sent is not None:
            return epoch <= sent.epoch
        return not any(self.store.exists(file.staged_path) for file in staged)

    def _sent(self) -> _Sent | None:
        data = self.store.get(output_paths.SENT)
        return None if data is None else decode_as(_SENT, _Sent, data, where=f"{self.store.url}/{output_paths.SENT}")

    def _note(self, epoch: Epoch) -> None:
        self.store.put(output_paths.SENT, encode_as(_SENT, _Sent(epoch, self._context.generation)))

    def _not_sent(self, error: Exception, epoch: Epoch) -> MixedmodeError:
        """Return the error for an epoch that was not sent, or only in part. It is committed, unlike other failures."""
        cause = str(error)
        found = kafka_problem(cause)
        if found is not None:
            return type(found)(hidden(f"{found}, topic={self._sink.topic}, epoch={epoch}"))
        msg = (
            "the rows of an epoch could not be sent to their topic, or only some of them. The epoch is committed, and "
            "all of its rows are sent again when the epoch is repeated, or the job is started again. Look at the "
            f"cause. cause={hidden(innermost(cause))}, topic={self._sink.topic}, epoch={epoch}"
        )
        return RetryableError(msg)

    def _check_topic(self) -> None:
        session = self._context.session
        options = with_patience({**self._options(), "subscribe": self._sink.topic})
        try:
            # planning asks the broker for the topic's partitions; no record is read
            session.read.format("kafka").options(**options).load().rdd.getNumPartitions()
            # a task starts its producer also without a row to send
            self._send(session.range(0, 1, 1, 1).where("id < 0").selectExpr("string(id) AS value"))
        except (PySparkException, Py4JJavaError) as error:
            found = kafka_problem(str(error)) or without_connector(self._sink.place, error)
            raise type(found)(hidden(f"{found}, topic={self._sink.topic}")) from error

    def _send(self, records: DataFrame) -> None:
        records.write.format("kafka").options(**self._options(), topic=self._sink.topic).mode("append").save()

    def _options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": resolve(self._sink.bootstrap_servers),
            **resolve_all(self._sink.options),
        }
