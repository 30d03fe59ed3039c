"""Translates error texts of Spark's Kafka connector and of Kafka's clients into MixedmodeErrors.

spark/errors.py asks this module. No other module branches on such texts.
"""

import re

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError

__all__ = ["kafka_problem", "without_connector"]

#: Spark's messages on records that Kafka deleted before they were read, with the known values of the records
_LOST = (
    (
        re.compile(r"Could not read records in offset \[(\d+), (\d+)\) for topic partition (\S+)-(\d+)"),
        "topic={2}, partition={3}, offsets=[{0}, {1}) or a part of them",
    ),
    (
        re.compile(r"Starting offset for (\S+)-(\d+) was (\d+) but consumer reset to (\d+)"),
        "topic={0}, partition={1}, offsets=[{2}, {3})",
    ),
    (
        re.compile(r"Added partition (\S+)-(\d+) starts from (\d+) instead of 0"),
        "topic={0}, partition={1}, offsets=[0, {2})",
    ),
)
_PARTITIONS_GONE = re.compile(
    r"Partitions? (?:\w*Set\()?([^()\n]*?)\)? (?:have|has) been deleted"
    r"|Cannot find initial offsets for partitions (?:\w*Set\()?([^()\n]*?)\)?\. They may"
)
_MADE_ANEW = re.compile(r"Partition (\S+)-(\d+) offset was changed from (\d+) to (\d+)")
_NO_TOPIC = re.compile(r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PARTITION|Topic \S+ not present in metadata")
_NOT_ALLOWED = re.compile(r"\w*(?:Authentication|Authorization)Exception: ([^\n]*)")
_TOO_LARGE = re.compile(r"RecordTooLargeException: ([^\n]*)")
_WRONG_OPTION = re.compile(r"ConfigException: ([^\n]*)|(No enum constant org\.apache\.kafka\.\S+)")
_NO_CLIENT = re.compile(r"Failed to (?:create new KafkaAdminClient|construct kafka (?:consumer|producer))[^\n]*")
_NO_ANSWER = re.compile(
    r"TimeoutException: ((?:Timed out|Timeout|Failed to update metadata|Call\()[^\n]*)|(No resolvable bootstrap urls)"
)
_CALL_OF_JAVA = "An error occurred while calling"  # py4j's first line, which does not name the cause
_OTHER_PARTITIONS = re.compile(
    r"(?:don't match what are assigned|you must specify all TopicPartitions)"
    r".*?Specified: (?:\w*Set\()?(?P<specified>[^()]*?)\)?\s+Assigned: (?:\w*Set\()?"
    r"(?P<assigned>[^()\s,]*(?:, ?[^()\s,]+)*)",
    re.DOTALL,
)


def kafka_problem(text: str) -> MixedmodeError | None:
    """Return the error for a text about Kafka; None if the text is about something else."""
    lost = _loss(text)
    if lost is not None:
        return lost
    other = _OTHER_PARTITIONS.search(text)
    if other is not None:
        msg = (
            "starting.offsets of a Kafka source, or the offsets of a seam, must name every partition of its topics, "
            "and no other (in starting.offsets, earliest and latest are offsets, too). Correct them. "
            f"given={other['specified']}, existing={other['assigned']}"
        )
        return InvalidJobError(msg)
    refused = _NOT_ALLOWED.search(text)
    if refused is not None:
        msg = (
            "Kafka refuses this user. Correct the security settings in `options` of the source or sink (kafka.sasl.*, "
            f"kafka.ssl.*), or the user's rights. cause={refused[1].strip()[:300]}"
        )
        return InvalidJobError(msg)
    large = _TOO_LARGE.search(text)
    if large is not None:
        msg = (
            "a row is larger, as a record, than the producer or the topic of a Kafka sink takes. Raise "
            "kafka.max.request.size in the sink's `options`, and max.message.bytes of the topic, and start the job "
            f"again: it sends the epoch, which is committed. cause={large[1].strip()[:300]}"
        )
        return InvalidJobError(msg)
    option = _WRONG_OPTION.search(text) or _NO_CLIENT.search(text)
    if option is not None:
        cause = next(filter(None, option.groups()), option[0])
        msg = (
            "Kafka's client does not start with these `options` of the source or sink. Correct them, and start the job "
            f"again: it resumes. cause={cause[:300]}"
        )
        return InvalidJobError(msg)
    missing = _NO_TOPIC.search(text)
    if missing is not None:
        msg = (
            "a Kafka topic of the job does not exist, and the job makes none. Create it, with the number of partitions "
            f"that you want, or correct its name. cause={missing[0]}"
        )
        return InvalidJobError(msg)
    silent = _NO_ANSWER.search(text)
    if silent is not None:
        msg = (
            "Kafka's brokers do not answer. See that they run, and that bootstrap-servers and, where they want it, "
            f"kafka.security.protocol are right; then start the job again: it resumes. cause={silent[0][:300]}"
        )
        return RetryableError(msg)
    return None


def _loss(text: str) -> MixedmodeError | None:
    """Return the error for a text about records that are gone, or partitions; None if the text is about others."""
    for pattern, values in _LOST:
        lost = pattern.search(text)
        if lost is not None:
            msg = (
                "Kafka no longer has records that this job has yet to read: they expired, or were deleted. Nothing was "
                "committed. To go on without them, set `allow-data-loss: true` on the source; to keep this from "
                f"happening, have the topic keep its records for longer. {values.format(*lost.groups())}"
            )
            return InvalidJobError(msg)
    gone = _PARTITIONS_GONE.search(text)
    if gone is not None:
        msg = (
            "a source of Kafka no longer has partitions that this job has read: their topic was deleted, or the source "
            "no longer names it. Records in them that were not read yet would be missing, so nothing was committed. "
            "Correct `topics` or `topic-pattern`. To go on without these partitions, set `allow-data-loss: true` on "
            "the source. If the source reads one of them again later, it reads all records of it, also those that the "
            f"job has read. partitions={gone[1] or gone[2]}"
        )
        return InvalidJobError(msg)
    anew = _MADE_ANEW.search(text)
    if anew is not None:
        msg = (
            "a topic of Kafka ends before the offset at which this job goes on: it was deleted and made anew, or has "
            "lost its newest records. Or, in a job that begins, an offset in `starting` or in the seam is too great: "
            "correct it. Nothing was committed. To read the whole topic, give the job a new "
            "execution.checkpointing.dir and output. With `allow-data-loss: true` the job goes on behind what the "
            f"topic has now, which is not read. topic={anew[1]}, partition={anew[2]}, goes_on_at={anew[3]}, "
            f"ends_at={anew[4]}"
        )
        return InvalidJobError(msg)
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
