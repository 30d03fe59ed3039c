"""Documents of the API: JSON that every reader accepts, whatever the figures of a job are."""

import json
import math
from dataclasses import fields
from types import MappingProxyType

import pytest

from mixedmode.driver.events import EpochCommitted
from mixedmode.serve.documents import as_json, epoch_document, manifest_document, watermark_ms
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.serve import story
from tests.serve.site import committed


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_null(value: float) -> None:
    assert json.loads(as_json({"seconds_left": [value, 1.5]})) == {"seconds_left": [None, 1.5]}


def test_half_of_a_pair_of_surrogates_is_escaped() -> None:
    document = {"\ud800": "é\udcff"}
    assert json.loads(as_json(document).encode()) == document


def test_texts_are_escaped_as_those_in_which_secrets_are_searched() -> None:
    every = [chr(code) for code in (*range(0x400), 0x2028, 0x2029, 0xFFFF, 0x1F600)]
    assert [as_json(text) for text in every] == [json.dumps(text, ensure_ascii=False) for text in every]


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 2**64, -(2**100), 1e300, 1.0, -0.0, 0.1, 5e-324])
def test_a_number_is_read_as_it_was(value: float) -> None:
    found = json.loads(as_json({"value": value}))["value"]
    assert (found, type(found), str(found)) == (value, type(value), str(value))


def test_a_mapping_that_is_no_dict_is_an_object() -> None:
    assert json.loads(as_json({"joins": MappingProxyType({"a": (1, None)})})) == {"joins": {"a": [1, None]}}


def test_a_document_is_one_line_so_that_it_fits_a_frame_of_the_stream() -> None:
    text = as_json({"text": "a\nb\r\u2028c", "é": "ü"})
    assert text.splitlines()[0].startswith('{"text":"a\\nb\\r')
    assert "\n" not in text
    assert "\r" not in text
    assert json.loads(text) == {"text": "a\nb\r\u2028c", "é": "ü"}


@pytest.mark.parametrize(
    ("watermark_us", "expected"), [(None, None), (MIN_TIME_US, None), (MAX_TIME_US, None), (-1, -1), (1_999, 1)]
)
def test_a_watermark_outside_of_time_is_null(watermark_us: int | None, expected: int | None) -> None:
    assert watermark_ms(watermark_us) == expected


def test_an_epoch_has_the_same_names_from_its_event_and_from_its_manifest() -> None:
    manifest = story.manifest(1, 5000)
    assert set(epoch_document(committed(1, manifest=manifest))) == set(manifest_document(manifest))
    shown = set(epoch_document(committed(1)))
    left_out = {"is_backlog", "created_ms", "profile", "watermark_us", "migration_seconds", "pairs", "manifest"}
    assert {field.name for field in fields(EpochCommitted)} - shown == left_out


def test_without_a_manifest_an_epoch_of_a_batch_job_has_its_figures() -> None:
    document = epoch_document(committed(0, records=7, seconds=0.5))
    assert (document["records"], document["records_per_second"], document["kind"]) == (7, 14.0, "backlog")
    assert "steps" not in document
