"""Translates error texts of Spark's Kafka connector and of Kafka's clients into MixedmodeErrors.

spark/errors.py asks this module. No other module branches on such texts.
"""

import re
from dataclasses import dataclass

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError

__all__ = ["kafka_problem", "without_connector"]

_LOST = (
    "Kafka no longer has records that this job has yet to read: they expired, or were deleted. Nothing was committed. "
    "To go on without them, set `allow-data-loss: true` on the source; to keep this from happening, have the topic "
    "keep its records for longer. topic={topic}, partition={partition}, offsets="
)
_PARTITIONS_GONE = (
    "a source of Kafka no longer has partitions that this job has read: their topic was deleted, or the source no "
    "longer names it. Records in them that were not read yet would be missing, so nothing was committed. Correct "
    "`topics` or `topic-pattern`. To go on without these partitions, set `allow-data-loss: true` on the source. If the "
    "source reads one of them again later, it reads all records of it, also those that the job has read. "
    "partitions={partitions}"
)
_WRONG_OPTIONS = (
    "Kafka's client does not start with these `options` of the source or sink. Correct them, and start the job again: "
    "it resumes. cause={cause}"
)


@dataclass(frozen=True, slots=True)
class _Problem:
    """A pattern of what Spark or Kafka says, with the values by name, and the message about it."""

    pattern: str
    message: str


#: the first that matches counts
_PROBLEMS = (
    _Problem(
        r"Could not read records in offset \[(?P<first>\d+), (?P<end>\d+)\) for topic partition "
        r"(?P<topic>\S+)-(?P<partition>\d+)",
        f"{_LOST}[{{first}}, {{end}}) or a part of them",
    ),
    _Problem(
        r"Starting offset for (?P<topic>\S+)-(?P<partition>\d+) was (?P<first>\d+) but consumer reset to (?P<end>\d+)",
        f"{_LOST}[{{first}}, {{end}})",
    ),
    _Problem(
        r"Added partition (?P<topic>\S+)-(?P<partition>\d+) starts from (?P<end>\d+) instead of 0",
        f"{_LOST}[0, {{end}})",
    ),
    _Problem(r"Partitions? (?:\w*Set\()?(?P<partitions>[^()\n]*?)\)? (?:have|has) been deleted", _PARTITIONS_GONE),
    _Problem(
        r"Cannot find initial offsets for partitions (?:\w*Set\()?(?P<partitions>[^()\n]*?)\)?\. They may",
        _PARTITIONS_GONE,
    ),
    _Problem(
        r"Partition (?P<topic>\S+)-(?P<partition>\d+) offset was changed from (?P<goes_on_at>\d+) to (?P<ends_at>\d+)",
        "a topic of Kafka ends before the offset at which this job goes on: it was deleted and made anew, or has lost "
        "its newest records. Or, in a job that begins, an offset in `starting` or in the seam is too great: correct "
        "it. Nothing was committed. To read the whole topic, give the job a new execution.checkpointing.dir and "
        "output. With `allow-data-loss: true` the job goes on behind what the topic has now, which is not read. "
        "topic={topic}, partition={partition}, goes_on_at={goes_on_at}, ends_at={ends_at}",
    ),
    _Problem(
        r"(?s)(?:don't match what are assigned|you must specify all TopicPartitions)"
        r".*?Specified: (?:\w*Set\()?(?P<specified>[^()]*?)\)?\s+Assigned: (?:\w*Set\()?"
        r"(?P<assigned>[^()\s,]*(?:, ?[^()\s,]+)*)",
        "starting.offsets of a Kafka source, or the offsets of a seam, must name every partition of its topics, and no "
        "other (in starting.offsets, earliest and latest are offsets, too). Correct them. "
        "given={specified}, existing={assigned}",
    ),
    _Problem(
        r"\w*(?:Authentication|Authorization)Exception: (?P<cause>[^\n]{0,300})",
        "Kafka refuses this user. Correct the security settings in `options` of the source or sink (kafka.sasl.*, "
        "kafka.ssl.*), or the user's rights. cause={cause}",
    ),
    _Problem(
        r"RecordTooLargeException: (?P<cause>[^\n]{0,300})",
        "a row is larger, as a record, than the producer or the topic of a Kafka sink takes. Raise "
        "kafka.max.request.size in the sink's `options`, and max.message.bytes of the topic, and start the job again: "
        "it sends the epoch, which is committed. cause={cause}",
    ),
    _Problem(r"ConfigException: (?P<cause>[^\n]{0,300})", _WRONG_OPTIONS),
    _Problem(r"(?P<cause>No enum constant org\.apache\.kafka\.\S{0,300})", _WRONG_OPTIONS),
    _Problem(
        r"(?P<cause>Failed to (?:create new KafkaAdminClient|construct kafka (?:consumer|producer))[^\n]{0,300})",
        _WRONG_OPTIONS,
    ),
    _Problem(
        r"(?P<cause>UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PARTITION|Topic \S+ not present in metadata)",
        "a Kafka topic of the job does not exist, and the job makes none. Create it, with the number of partitions "
        "that you want, or correct its name. cause={cause}",
    ),
)
_NO_ANSWER = re.compile(
    r"TimeoutException: (?:Timed out|Timeout|Failed to update metadata|Call\()[^\n]{0,300}|No resolvable bootstrap urls"
)
_CALL_OF_JAVA = "An error occurred while calling"  # py4j's first line, which does not name the cause


def kafka_problem(text: str) -> MixedmodeError | None:
    """Return the error for a text about Kafka; None if the text is about something else."""
    for problem in _PROBLEMS:
        found = re.search(problem.pattern, text)
        if found is not None:
            return InvalidJobError(problem.message.format(**found.groupdict()).strip())
    silent = _NO_ANSWER.search(text)
    if silent is not None:
        msg = (
            "Kafka's brokers do not answer. See that they run, and that bootstrap-servers and, where they want it, "
            f"kafka.security.protocol are right; then start the job again: it resumes. cause={silent[0]}"
        )
        return RetryableError(msg)
    return None


def without_connector(where: str, error: Exception) -> MixedmodeError:
    """Return the error if Spark does not know the format `kafka`, or refuses its options."""
    text = str(error)
    if "Failed to find data source" in text or "DATA_SOURCE_NOT_FOUND" in text:
        msg = (
            f"{where}: Spark's Kafka connector is not loaded. It has to be there when Spark's session starts: leave "
            "spark.jars.packages to mixedmode, or name the connector there or in spark.jars; docs/kafka.md says how, "
            "also where there is no network"
        )
        return InvalidJobError(msg)
    lines = (line.strip(" :") for line in text.splitlines())
    cause = next((line for line in lines if line and not line.startswith(_CALL_OF_JAVA)), "")
    return InvalidJobError(f"{where}: Spark refuses these settings of Kafka. cause={cause[:300]}")
