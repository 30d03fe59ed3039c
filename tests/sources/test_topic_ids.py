"""A topic whose id has changed was deleted and made anew, and the job stops or tells the user."""

import pytest

from mixedmode.sources.topic_ids import TopicDecision, TopicsMadeAnew, TopicsRead, decide_topics

READ = {"orders": {0: 17, 1: 0}, "clicks": {0: 3}}
IDS = {"orders": "o1", "clicks": "c1"}


def decided(
    now: dict[str, str],
    *,
    before: dict[str, str] = IDS,
    read: dict[str, dict[int, int]] = READ,
    allows_data_loss: bool = False,
) -> TopicDecision:
    return decide_topics(before, now, read, where="sources.t", allows_data_loss=allows_data_loss)


def test_the_same_topics_are_read_on() -> None:
    assert decided(IDS) == TopicsRead(IDS)


def test_a_topic_with_another_id_stops_the_job_and_the_message_says_what_to_do() -> None:
    assert decided({"orders": "o2", "clicks": "c1"}) == TopicsMadeAnew(
        "sources.t: a topic is not the one that this job has read, although it has the same name: it was deleted and "
        "made anew, or bootstrap-servers now name another cluster. The job would go on at the offset up to which it "
        "has read the old topic, and skip the records before it in the new one. Nothing was committed. Correct "
        "bootstrap-servers if they are wrong. Otherwise give the job a new execution.checkpointing.dir and output: it "
        "reads the topic from its beginning. With `allow-data-loss: true` on the source, it goes on without the "
        "skipped records. topics=orders, ids_now=o2, ids_before=o1"
    )


def test_all_topics_with_other_ids_are_named() -> None:
    found = decided({"orders": "o2", "clicks": "c2"})
    assert isinstance(found, TopicsMadeAnew)
    assert found.reason.endswith("topics=clicks, orders, ids_now=c2, o2, ids_before=c1, o1")


def test_with_allow_data_loss_the_job_goes_on_says_so_and_keeps_the_new_id() -> None:
    now = {"orders": "o2", "clicks": "c1"}
    assert decided(now, allows_data_loss=True) == TopicsRead(
        now,
        "sources.t: a topic was deleted and made anew since this job has read it, or bootstrap-servers now name "
        "another cluster. As allow-data-loss is true, the job goes on at the offset up to which it has read the old "
        "topic. The records before it in the new topic are not read. topics=orders, ids_now=o2, ids_before=o1",
    )


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ({}, IDS, IDS),  # the first epoch, or the brokers gave no ids before
        (IDS, {}, IDS),  # brokers that give no ids, or the topics are gone at the moment
        ({"clicks": "c1"}, IDS, IDS),  # a topic of a pattern that is new
        (IDS, {"clicks": "c1"}, IDS),
    ],
)
def test_a_topic_without_an_id_is_no_problem(before: dict[str, str], now: dict[str, str], kept: dict[str, str]) -> None:
    assert decided(now, before=before) == TopicsRead(kept)


@pytest.mark.parametrize("read", [{}, {"clicks": {0: 3}}, {"orders": {0: 0, 1: 0}, "clicks": {0: 3}}])
def test_a_topic_of_which_nothing_was_read_may_be_made_anew(read: dict[str, dict[int, int]]) -> None:
    now = {"orders": "o2", "clicks": "c1"}
    assert decided(now, read=read) == TopicsRead(now)
