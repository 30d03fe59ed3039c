"""What Spark says of its own log, as one of our kinds; the texts are Spark's (4.3), cut where it prints the query."""

import pytest
from pyspark.errors import PySparkException

from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError
from mixedmode.spark.errors import explained

QUERY = "\n=== Streaming Query ===\nIdentifier: [id = 03865627, runId = e56be0ff]\nCurrent Available Offsets: {}"


def told(cause: str) -> MixedmodeError:
    text = f"[STREAM_FAILED] Query [id = 03865627, runId = e56be0ff] terminated with exception: {cause} SQLSTATE: XXKST"
    return explained(PySparkException(text + QUERY), log_file="/c/logs/spark.log")


@pytest.mark.parametrize(
    "cause",
    [
        "batch 10 doesn't exist",
        "file:/c/spark/sources/0/10 doesn't exist (latestId: 11, compactInterval: 10)",
        "Unexpected character ('|' (code 124)): was expecting comma to separate Object entries\n at [Source: REDACTED",
        "Unexpected end-of-input in field name\n at [Source: REDACTED; line: 1, column: 9]",
        "Incomplete log file in the offset commit log",
    ],
)
def test_a_log_of_spark_that_it_cannot_read_is_damage_and_one_line(cause: str) -> None:
    error = told(cause)
    assert isinstance(error, CorruptStateError)
    assert str(error).startswith(
        "Spark cannot read its own log, a part of the checkpoint folder (spark/): an entry is damaged or gone. Nothing "
        "was committed. Start the job again with execution.checkpointing.verify: checksums (which is the default): it "
        "names the entry, and mends it or goes back to the newest checkpoint that is whole. cause="
    )
    assert "\n" not in str(error)
    assert cause.partition("\n")[0] in str(error)


def test_a_record_that_does_not_parse_is_still_the_inputs_fault() -> None:
    error = told(
        "Malformed records are detected in record parsing: [null]\n at [Source: x\n MALFORMED_RECORD_IN_PARSING"
    )
    assert isinstance(error, InvalidJobError)
