"""Settings of Kafka sinks; names of topics, and the options of Kafka's client that sources and sinks set themselves."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import Options, Text, refusal
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.used_places import UsedPlace

OURS_IN_SINKS = {"kafka.bootstrap.servers": "bootstrap-servers", "topic": "topic", "includeheaders": "topic"}
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        text = (
            " is not the name of a topic: it has letters, digits, ., _ and - only, at most 249 of them. Correct it. "
            f"Several topics are a list. found={name}"
        )
        raise refusal(((), text))
    return name


TopicName = Annotated[Text, AfterValidator(_topic)]


class KafkaSinkSpec(SinkSpec):
    """A sink that writes one record per row to a topic, at least once."""

    format: Literal["kafka"] = Field(description="kafka")
    bootstrap_servers: Text = Field(description="brokers to begin with, as host:port,host:port")
    topic: TopicName = Field(description="the topic, which has to be there")
    options: Options = Field(
        default={}, description="options of Spark's Kafka connector; those of Kafka's producers begin with kafka."
    )

    @property
    @override
    def place(self) -> str:
        return f"kafka {self.topic} at {self.bootstrap_servers}"

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        names = on_each_server(self.bootstrap_servers, [self.topic])
        return (UsedPlace(("topic",), self.topic, names=names),)

    @override
    def renamed(self, suffix: str) -> Self:
        return self.model_copy(update={"topic": f"{self.topic}{suffix}"})

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from option_findings(self.options, OURS_IN_SINKS)
        if any(option.lower() == "kafka.transactional.id" for option in self.options):
            text = (
                " has kafka.transactional.id, but Spark's producers begin no transaction, and could then send nothing. "
                "Remove it. The headers of a record tell a reader whether it was sent before."
            )
            yield ("options",), text


def on_each_server(servers: str, topics: Sequence[str]) -> frozenset[str]:
    """Return a name for each topic on each server, since any of its servers stands for a cluster."""
    return frozenset(f"{server.strip().lower()} {topic}" for topic in topics for server in servers.split(","))


def option_findings(options: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield an error for each option that one of our settings sets. ours: {option, in lower case: setting}."""
    for option in options:
        setting = ours.get(option.lower())
        if setting is not None:
            text = f" has an option that is set by {setting}. Remove it, and see that setting. option={option}"
            yield ("options",), text
