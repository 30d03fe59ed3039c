"""The time for which a start waits for Kafka's brokers."""

from typing import Any

import pytest

from mixedmode.connectors.kafka.admin import with_patience

CALL, REQUEST, AGAIN = "kafka.default.api.timeout.ms", "kafka.request.timeout.ms", "fetchOffset.numRetries"
OURS = {CALL: "15000", REQUEST: "10000", AGAIN: "1"}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"kafka.security.protocol": "SSL"}, {"kafka.security.protocol": "SSL"}),
        ({AGAIN: "3"}, {AGAIN: "3"}),
        ({REQUEST: "2000"}, {REQUEST: "2000"}),  # as a sink may for its producers; a call took a minute, several times
        ({REQUEST: "40000"}, {REQUEST: "40000", CALL: "40000"}),
        ({REQUEST: "soon"}, {REQUEST: "soon"}),
    ],
)
def test_a_start_is_not_patient_unless_the_job_is(options: dict[str, Any], changed: dict[str, Any]) -> None:
    assert with_patience(options) == {**OURS, **changed}


def test_a_job_says_itself_how_long_a_call_takes() -> None:
    assert with_patience({CALL: "1000"}) == {CALL: "1000", AGAIN: "1"}
