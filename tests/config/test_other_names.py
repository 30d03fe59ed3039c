"""Names that other programs have for our settings: a message about such a name says what it is called here."""

import pytest

from mixedmode.config.execution import StateSpec
from mixedmode.config.fields import Section
from mixedmode.config.messages import keys_by_place
from mixedmode.config.other_names import OTHER_NAMES, plain_key
from mixedmode.config.spec import JobSpec
from mixedmode.config.steps import KeyedAggregateStep
from mixedmode.config.windows import WindowSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from tests.config.refusals import SMALLEST_JOB, messages

KAFKA = {"format": "kafka", "bootstrap-servers": "h:1", "topics": "t", "value": {"format": "raw"}}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_every_meaning_of_another_name_is_a_setting_here(name: str) -> None:
    places = keys_by_place(JobSpec)
    assert plain_key(name) == name
    for meant in OTHER_NAMES[name]:
        assert meant in places or meant in places.values(), meant


@pytest.mark.parametrize(
    ("model", "values", "key", "meant"),
    [
        (KeyedAggregateStep, {"key-by": "k", "aggregate": {"n": "count(*)"}}, "group-by", "key-by"),
        (KeyedAggregateStep, {"key-by": "k", "aggregate": {"n": "count(*)"}}, "groupBy", "key-by"),
        (KeyedAggregateStep, {"key-by": "k", "aggregate": {"n": "count(*)"}}, "where", "steps[].sql"),
        (WindowSpec, {}, "hopping", "sliding"),
        (KafkaSourceSpec, KAFKA, "startingOffsets", "starting"),
        (KafkaSourceSpec, KAFKA, "maxOffsetsPerTrigger", "max-records-per-epoch"),
        (StateSpec, {}, "checkpoints", "execution.checkpointing.dir"),
        (JobSpec, SMALLEST_JOB, "checkpointLocation", "execution.checkpointing.dir"),
    ],
)
def test_a_message_about_another_programs_name_has_ours(
    model: type[Section], values: dict[str, object], key: str, meant: str
) -> None:
    said = messages(model, values | {key: "x"})
    assert any(text.startswith(f"{key} is not a known key. Did you mean {meant}? Known keys here:") for text in said)


def test_a_key_is_suggested_at_the_places_that_share_most_of_its_path() -> None:
    steps = [{"key-by": "k", "window": {"size": "1h"}, "aggregate": {"n": "count(*)"}}]
    assert messages(JobSpec, SMALLEST_JOB | {"steps": steps}) == [
        (
            "steps[0].window.size is not a known key. Did you mean steps[].window.tumbling.size or "
            "steps[].window.sliding.size or steps[].window.cumulating.size? Known keys here: tumbling, sliding, "
            "session, cumulating, global, time."
        )
    ]


@pytest.mark.parametrize(("value", "kind"), [(True, "true or false"), (5, "a whole number"), ({"k": 1}, "a section")])
def test_a_list_that_may_be_one_text_says_so(value: object, kind: str) -> None:
    (said,) = messages(KeyedAggregateStep, {"key-by": value, "aggregate": {"n": "count(*)"}})
    assert said.startswith(f"key-by must be text or a list, not {kind}")
