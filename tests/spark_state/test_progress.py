"""The progress of a query of Spark, from the texts of its logs."""

import json

import pytest

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.spark_state.progress import last_committed, progress_of

HEAD = {"batchWatermarkMs": 7, "batchTimestampMs": 99, "conf": {"spark.sql.shuffle.partitions": "2"}}
OFFSETS = "v1\n" + json.dumps(HEAD) + '\n{"logOffset":3}\n-\n{"topic":{"0":12}}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":11}'


def test_the_progress_has_both_watermarks_and_a_line_for_each_source() -> None:
    found = progress_of(4, OFFSETS, COMMIT, "/ck")
    assert (found.batch, found.watermark_ms, found.next_watermark_ms, found.timestamp_ms) == (4, 7, 11, 99)
    assert found.lines == ('{"logOffset":3}', "-", '{"topic":{"0":12}}')
    assert found.setting("shuffle.partitions", "200") == "2"
    assert found.setting("unknown", "200") == "200"


@pytest.mark.parametrize("commit", ['v1\n{"nextBatchWatermarkMs":0}', "v1\n{}"])
def test_the_next_watermark_is_never_behind(commit: str) -> None:
    assert progress_of(4, OFFSETS, commit, "/ck").next_watermark_ms == 7


def test_a_batch_that_has_only_begun_is_not_the_last_one() -> None:
    listing = ["offsets/8", "offsets/9", "offsets/10", "commits/8", "commits/9", "commits/.9.crc", "commits/9.tmp"]
    assert last_committed(listing, "/ck") == 9


@pytest.mark.parametrize(("listing", "words"), [(["offsets/0"], "committed none"), ([], "no offsets and commits")])
def test_a_folder_without_a_committed_batch_is_refused(listing: list[str], words: str) -> None:
    with pytest.raises(InvalidJobError, match=words):
        last_committed(listing, "/ck")


def test_a_committed_batch_without_offsets_is_damage() -> None:
    with pytest.raises(CorruptStateError, match=r"offsets/2"):
        last_committed(["offsets/1", "commits/2"], "/ck")


@pytest.mark.parametrize(
    ("offsets", "commit"),
    [(OFFSETS[:20], COMMIT), ("v1", COMMIT), ("v1\n{}\n-", COMMIT), (OFFSETS, ""), (OFFSETS, "v1\n[]")],
)
def test_an_entry_that_is_cut_short_is_damage(offsets: str, commit: str) -> None:
    with pytest.raises(CorruptStateError, match="cannot be read"):
        progress_of(4, offsets, commit, "/ck")


def test_a_version_that_names_sources_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="version=v2"):
        progress_of(4, OFFSETS.replace("v1", "v2", 1), COMMIT, "/ck")
