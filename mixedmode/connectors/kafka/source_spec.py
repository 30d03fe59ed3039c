"""Settings of Kafka sources.

Secrets remain names here: text with `${env:NAME}` is resolved when it is passed to Spark (secrets.py).
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_serializer
from typing_extensions import override

from mixedmode.config.connectors import AnySink
from mixedmode.config.document import Path
from mixedmode.config.fields import Count, Flag, Instant, Lines, Options, Section, Text, one_or_more, refusal
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec, dead_letter_findings
from mixedmode.config.starts import StartPoint
from mixedmode.config.used_places import UsedPlace
from mixedmode.connectors.kafka.sink_spec import TopicName, on_each_server, option_findings

#: {option of Spark's connector, in lower case: the setting of ours that sets it}
OURS_IN_SOURCES = {
    "kafka.bootstrap.servers": "bootstrap-servers",
    "subscribe": "topics",
    "subscribepattern": "topic-pattern",
    "assign": "topics",
    "startingoffsets": "starting",
    "startingoffsetsbytimestamp": "starting",
    "startingoffsetsbytimestampstrategy": "starting",
    "startingtimestamp": "starting",
    "endingoffsets": "bounded",
    "endingoffsetsbytimestamp": "bounded",
    "endingtimestamp": "bounded",
    "failondataloss": "allow-data-loss",
    "includeheaders": "metadata.headers",
    "maxoffsetspertrigger": "max-records-per-epoch",
    "minoffsetspertrigger": "max-records-per-epoch",
    "maxtriggerdelay": "max-records-per-epoch",
    "maxrecordsperpartition": "max-records-per-epoch",
}
_METADATA_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
_ENDS = {"earliest": -2, "latest": -1}  # as Spark writes them


def _offset(value: Any) -> Any:
    """Return an offset as Spark writes it: -2 for earliest, -1 for latest."""
    if isinstance(value, str) and value in _ENDS:
        return _ENDS[value]
    if isinstance(value, bool) or not isinstance(value, int) or value < min(_ENDS.values()):
        raise refusal(((), f" must be an offset, earliest or latest. found={value}"))
    return value


def _offset_text(offset: int) -> int | str:
    return next((name for name, number in _ENDS.items() if number == offset), offset)


def _starting(value: Any) -> Any:
    return {"at": value} if isinstance(value, str) else value


Offset = Annotated[int, BeforeValidator(_offset), PlainSerializer(_offset_text)]
Offsets = Mapping[Text, Mapping[Annotated[int, Field(ge=0)], Offset]]


class StartingSpec(Section):
    """The position at which a job without a checkpoint begins to read.

    `starting: latest` is short for `starting: {at: latest}`.
    """

    at: Literal["earliest", "latest"] | None = Field(
        default=None, description="earliest: at the oldest record there is; latest: after the newest one"
    )
    timestamp: Instant | None = Field(
        default=None,
        description="in each partition, at the first record with this timestamp of Kafka's or a later one",
    )
    offsets: Offsets | None = Field(
        default=None, description="by topic and partition, the first offset to read, or earliest or latest"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        given = [name for name in ("at", "timestamp", "offsets") if getattr(self, name) is not None]
        if len(given) != 1:
            yield (), f" has one of at, timestamp and offsets. Give one of them. found={', '.join(given) or 'none'}"

    @model_serializer(mode="wrap")
    def _short(self, serialize: Any) -> Any:
        return serialize(self) if self.at is None else self.at


Starting = Annotated[StartingSpec, BeforeValidator(_starting)]
_EARLIEST = StartingSpec(at="earliest")


class KafkaValueSpec(Section):
    """The conversion of a record's value to columns."""

    format: Literal["json", "csv", "avro", "text", "binary"] = Field(
        description="json, csv, avro; or text or binary, which have one column named value"
    )
    schema_ddl: Lines | None = Field(
        default=None,
        description="json and csv: columns as Spark DDL, such as id long, at timestamp; avro: its schema, JSON",
    )
    schema_file: Text | None = Field(default=None, description="avro: a file with the schema, instead of schema")
    confluent_header: Flag = Field(
        default=False,
        description="true: each value begins with the 5 bytes of Confluent's serializers (0, and the number of a "
        "schema), which are checked and left out",
    )
    options: Options = Field(default={}, description="options for Spark's from_json, from_csv or from_avro")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        has_columns = self.format in {"json", "csv", "avro"}
        if not has_columns:
            for key, is_given in {
                "schema": self.schema_ddl is not None,
                "options": bool(self.options),
                "confluent-header": self.confluent_header and self.format == "text",
            }.items():
                if is_given:
                    yield (key,), f" has no effect on values of this format. Remove it. format={self.format}"
        elif self.schema_ddl is None and self.schema_file is None:
            text = f" is missing: the values do not say what columns they have. Add it. format={self.format}"
            yield ("schema",), text
        if self.schema_file is not None and self.format != "avro":
            yield ("schema-file",), f" has no effect: it is for Avro's schemas. Use schema. format={self.format}"
        elif self.schema_file is not None and self.schema_ddl is not None:
            yield ("schema-file",), " and schema are both given. Remove one."
        for option in self.options:
            if option.lower() in {"mode", "columnnameofcorruptrecord", "avroschema"}:
                text = f" is decided by `undecodable` of the source. Remove it. option={option}"
                yield ("options",), text


class KafkaColumnsSpec(Section):
    """The Kafka fields that become columns, with the names of the columns. A field without a name is left out."""

    topic: Text | None = Field(default=None, description="a name for the topic, a string")
    partition: Text | None = Field(default=None, description="a name for the partition, an int")
    offset: Text | None = Field(default=None, description="a name for the offset, a long")
    timestamp: Text | None = Field(default=None, description="a name for Kafka's timestamp of the record")
    key: Text | None = Field(default=None, description="a name for the key; see key-format of the source")
    headers: Text | None = Field(
        default=None, description="a name for the headers, array<struct<key: string, value: binary>>"
    )

    @property
    def names(self) -> dict[str, str]:
        """{Kafka field: name of its column}, in the order of the columns."""
        return {field: name for field, name in self if name is not None}


class KafkaSourceSpec(SourceSpec):
    """A source of Kafka topics."""

    may_be = frozenset({"live"})  # a history ends
    format: Literal["kafka"] = Field(description="kafka")
    bootstrap_servers: Text = Field(description="brokers to begin with, as host:port,host:port")
    topics: Annotated[tuple[TopicName, ...], BeforeValidator(one_or_more)] = Field(
        default=(), description="one topic or several"
    )
    topic_pattern: Text | None = Field(
        default=None, description="a regular expression of Java's instead: all topics of such names, also later ones"
    )
    starting: Starting = Field(
        default=_EARLIEST, description="where a job without a checkpoint begins: earliest, latest, or a section"
    )
    value: KafkaValueSpec = Field(description="how values become columns")
    metadata: KafkaColumnsSpec = Field(
        default=KafkaColumnsSpec(), description="fields of Kafka's that become columns, and their names"
    )
    key_format: Literal["text", "binary"] = Field(
        default="text", description="the type of the key's column; text must be UTF-8"
    )
    undecodable: Literal["fail", "dead-letter"] = Field(
        default="fail",
        description="a record that cannot be decoded; fail: the job stops and says which; dead-letter: it goes to an "
        "output of its own",
    )
    dead_letter: AnySink | None = Field(
        default=None, description="where records go that cannot be decoded; needs undecodable: dead-letter"
    )
    allow_data_loss: Flag = Field(
        default=False,
        description="true: records that Kafka has deleted before they were read are passed over; false: the job stops",
    )
    max_records_per_epoch: Count | None = Field(
        default=None,
        description="most records in one epoch when a backlog uses the streaming strategy; not given: no limit",
    )
    backlog_lag_records: Count | None = Field(
        default=None,
        description="an epoch with more records of the source than this is backlog; not given: their number does not "
        "matter",
    )
    options: Options = Field(
        default={}, description="options of Spark's Kafka connector; those of Kafka's consumers begin with kafka."
    )

    @property
    @override
    def place(self) -> str:
        return f"kafka {self.topic_pattern or ', '.join(self.topics)} at {self.bootstrap_servers}"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        if self.topic_pattern is not None:
            names = on_each_server(self.bootstrap_servers, [f"~{self.topic_pattern}"])
            return (UsedPlace(("topic-pattern",), self.topic_pattern, names=names),)
        names = on_each_server(self.bootstrap_servers, self.topics)
        return (UsedPlace(("topics",), ", ".join(self.topics), names=names),)

    @property
    @override
    def limits_per_epoch(self) -> Mapping[str, int]:
        return {} if self.max_records_per_epoch is None else {"max_records": self.max_records_per_epoch}

    @override
    def may_have_read(self, kind: Literal["files", "topics"], names: Collection[str]) -> bool:
        if self.topic_pattern is not None:  # of Java's; Spark's first epoch with another topic would tell
            return kind == "topics"
        return kind == "topics" and set(names) == set(self.topics)

    @property
    @override
    def outputs(self) -> Mapping[Path, SinkSpec]:
        return {} if self.dead_letter is None else {("dead-letter",): self.dead_letter}

    @property
    @override
    def declared_schema(self) -> str | None:
        value = self.value
        match value.format:
            case "json" | "csv":
                columns = value.schema_ddl
            case "text" | "binary":
                columns = f"value {'string' if value.format == 'text' else 'binary'}"
            case "avro":
                columns = None
        if columns is None:
            return None
        types = {**_METADATA_TYPES, "key": "string" if self.key_format == "text" else "binary"}
        return ", ".join([columns, *(f"`{name}` {types[field]}" for field, name in self.metadata.names.items())])

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        if bool(self.topics) == (self.topic_pattern is not None):
            yield ("topics",), " or topic-pattern says what is read. Give one of the two."
        yield from dead_letter_findings(self.undecodable, self.dead_letter)
        if self.key_format != "text" and self.metadata.key is None:
            yield ("key-format",), " has no effect: the key is no column. Name it in metadata.key, or remove this."
        yield from self._starting_findings()
        yield from option_findings(self.options, OURS_IN_SOURCES)

    @override
    def seam_findings(self, offsets: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[Path, str]]:
        if "starting" in self.model_fields_set:
            text = " is given by the seam's offsets, where the live side begins. Remove it."
            yield ("live", "starting"), text
        elif self.topics and offsets.keys() != set(self.topics):
            text = (
                " must name the topics that the live side reads, and no other, each with all of its partitions. "
                f"Correct it. topics={', '.join(sorted(offsets.keys() ^ set(self.topics)))}"
            )
            yield ("seam", "offsets"), text

    @override
    def beginning_at(self, offsets: Mapping[str, Mapping[int, int]]) -> Self:
        return self.model_copy(update={"starting": StartingSpec(offsets=offsets)})

    @override
    def starting_at(self, point: StartPoint) -> Self | str:
        if point.at is not None:
            return self.model_copy(update={"starting": StartingSpec(at=point.at)})
        if point.timestamp is not None:
            return self.model_copy(update={"starting": StartingSpec(timestamp=point.timestamp)})
        assert point.offsets is not None, point
        if not set(self.topics) <= point.offsets.keys():
            return "the offsets must name the topics that the source reads, each with all of its partitions. Add them."
        offsets = {topic: one for topic, one in point.offsets.items() if topic in self.topics or not self.topics}
        try:
            return self.model_copy(update={"starting": StartingSpec.model_validate({"offsets": offsets})})
        except ValidationError as error:
            found = error.errors()[0]
            return f"the offsets cannot be used: {'.'.join(map(str, found['loc']))}: {found['msg']}."

    @override
    def cannot_read_again(self, end: datetime) -> str | None:
        return "its topics may have deleted old records"

    def _starting_findings(self) -> Iterator[tuple[Path, str]]:
        if self.starting.offsets is None or not self.topics:
            return
        others = sorted(self.starting.offsets.keys() ^ set(self.topics))
        if others:
            text = (
                " must name the topics that are read, and no other, each with all of its partitions. Correct it. "
                f"topics={', '.join(others)}"
            )
            yield ("starting", "offsets"), text
