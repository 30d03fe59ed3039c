"""Manifests, identity and generations as bytes: exact, self-proving, readable for ever."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.document import DocumentKind, decode_document, encode_document
from mixedmode.checkpoint.manifest import (
    decode_generation,
    decode_identity,
    decode_manifest,
    encode_generation,
    encode_identity,
    encode_manifest,
)
from mixedmode.checkpoint.types import (
    Epoch,
    Generation,
    JobIdentity,
    Manifest,
    OperatorState,
    RunFile,
    SourceProgress,
    StagedFile,
)
from mixedmode.errors import CorruptStateError
from tests.checkpoint.examples import IDENTITY, a_manifest, a_run, a_staged

KIND = DocumentKind("mixedmode-example", 2, "the example")
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**62)
JSON = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RUNS = st.builds(RunFile, TEXT, COUNT, COUNT, COUNT, COUNT, COUNT, TEXT, st.lists(TEXT, max_size=3).map(tuple))
STAGED = st.builds(StagedFile, TEXT, TEXT, COUNT, COUNT, TEXT)
STATES = st.builds(OperatorState, TEXT, st.dictionaries(TEXT, JSON, max_size=3), st.lists(RUNS, max_size=3).map(tuple))
PROGRESS = st.builds(SourceProgress, COUNT, st.none() | INT64, st.none() | INT64)
MANIFESTS = st.builds(
    Manifest,
    job=TEXT,
    epoch=COUNT.map(Epoch),
    generation=COUNT.map(Generation),
    previous=st.none() | COUNT.map(Epoch),
    created_ms=INT64,
    is_backlog=st.booleans(),
    path=st.sampled_from(["sorted", "streaming"]),
    parallelism=COUNT,
    max_parallelism=COUNT,
    sources=st.dictionaries(TEXT, PROGRESS, max_size=3),
    offsets=TEXT,
    operators=st.lists(STATES, max_size=3).map(tuple),
    outputs=st.lists(STAGED, max_size=3).map(tuple),
    records_in=COUNT,
    rows_out=COUNT,
    pairs=COUNT,
)

GOLDEN = (
    b'{"kind":"mixedmode-manifest","format_version":1,"checksum":"6c2bbcede7e2efc8","content":{"job":"airport-delays","epoch":1,'
    b'"generation":1,"previous":0,"created_ms":1700000000000,"is_backlog":false,"path":"streaming","parallelism":2,'
    b'"max_parallelism":128,"sources":{"flights":{"records":1000,"max_event_time_us":1699999999000000,'
    b'"watermark_us":null}},"offsets":"v1\\n{\\"batchWatermarkMs\\":0,\\"batchTimestampMs\\":1700000000000}\\n'
    b'{\\"logOffset\\":0}","operators":[{"operator_id":"step-1","state_schema":{"columns":["n","\xce\xa3"],'
    b'"format":1},"runs":[{"path":"runs/step-1/0000000001-0000000000-a.sst","state_id":0,"bytes":5,"entries":2,'
    b'"key_group_start":0,"key_group_end":64,"checksum":"0000000000000000","merged_from":[]}]}],'
    b'"outputs":[{"staged_path":'
    b'"_staging/0000000001-0000000000-a.parquet","final_path":"part-0000000001-0000000000.parquet","bytes":7,'
    b'"rows":3,"checksum":"ffffffffffffffff"}],"records_in":1000,"rows_out":3,"pairs":3}}\n'
)


def example() -> Manifest:
    return a_manifest(1, runs=[a_run(1)], outputs=[a_staged(1)])


def test_the_bytes_of_a_manifest_are_those_of_format_1() -> None:
    assert encode_manifest(example()) == GOLDEN, "a change of these bytes is a new format version"
    assert decode_manifest(GOLDEN, where="here") == example()


def test_the_bytes_of_identity_and_generation_are_those_of_format_1() -> None:
    assert encode_identity(JobIdentity("j", 8, {"s": "f"})) == (
        b'{"kind":"mixedmode-job","format_version":1,"checksum":"852104dd7a2292e5",'
        b'"content":{"name":"j","max_parallelism":8,"operators":{"s":"f"}}}\n'
    )
    assert encode_generation(Generation(3)) == (
        b'{"kind":"mixedmode-generation","format_version":1,"checksum":"e00f6c150d7d6a73","content":{"generation":3}}\n'
    )


@given(manifest=MANIFESTS)
def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest), where="here") == manifest


def test_identity_and_generation_come_back_as_they_were() -> None:
    assert decode_identity(encode_identity(IDENTITY), where="here") == IDENTITY
    assert decode_generation(encode_generation(Generation(4)), where="here") == 4


def test_a_manifest_with_any_one_bit_flipped_is_refused() -> None:
    data = encode_manifest(example())
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptStateError):
                decode_manifest(bytes(flipped), where="here")


def test_a_manifest_that_is_cut_short_anywhere_is_refused() -> None:
    data = encode_manifest(example())
    for length in range(len(data)):
        with pytest.raises(CorruptStateError):
            decode_manifest(data[:length], where="here")


@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decode_manifest(data, where="here")


@pytest.mark.parametrize("data", [b"{}", b"[]", b"3", b"null", b'{"kind":"mixedmode-manifest"}', b"[" * 100_000])
def test_json_that_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decode_manifest(data, where="here")


def test_a_truncated_manifest_is_explained_in_full() -> None:
    with pytest.raises(CorruptStateError) as caught:
        decode_manifest(b'{"kind":"mixedm', where="/c/manifests/0000000001.json")
    assert str(caught.value) == (
        "the manifest of a checkpoint cannot be used: it is cut short or overwritten, bytes=15. Nothing was changed. "
        "Restore the file from a copy, or go back to an older checkpoint. file=/c/manifests/0000000001.json"
    )


def test_a_manifest_of_a_newer_version_says_so_in_full() -> None:
    newer = DocumentKind("mixedmode-manifest", 2, "x")
    with pytest.raises(CorruptStateError) as caught:
        decode_manifest(encode_document(newer, {"anything": "else"}), where="/c/m.json")
    assert str(caught.value) == (
        "the manifest of a checkpoint was written by a newer mixedmode than this one. Nothing was changed. Start the "
        "job with the version that wrote it, or a later one. file=/c/m.json, format_version=2, newest_readable=1"
    )


def test_another_kind_of_document_is_named_as_such() -> None:
    with pytest.raises(CorruptStateError, match="something else was put in its place, kind='mixedmode-job'"):
        decode_manifest(encode_identity(IDENTITY), where="here")


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.5, True, 1.0])
def test_a_format_version_that_never_was_is_refused(version: object) -> None:
    body = json.loads(encode_manifest(example()))
    body["format_version"] = version
    with pytest.raises(CorruptStateError):
        decode_manifest(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n", where="here")


@pytest.mark.parametrize("change", [{"epoch": "1"}, {"epoch": None}, {"path": "else"}, {"extra": 1}, {"is_backlog": 1}])
def test_a_whole_document_with_other_fields_is_refused(change: dict[str, object]) -> None:
    content = json.loads(encode_manifest(example()))["content"] | change
    with pytest.raises(CorruptStateError, match="its fields are not those of format 1"):
        decode_manifest(encode_document(DocumentKind("mixedmode-manifest", 1, ""), content), where="here")


def test_edited_content_does_not_match_its_checksum() -> None:
    edited = encode_manifest(example()).replace(b'"rows_out":3', b'"rows_out":4')
    with pytest.raises(CorruptStateError, match="its checksum does not match its content"):
        decode_manifest(edited, where="here")


@given(content=st.dictionaries(TEXT, JSON, max_size=4))
def test_any_json_content_comes_back_from_a_document(content: dict[str, object]) -> None:
    assert json.loads(decode_document(KIND, encode_document(KIND, content), where="here")) == content


def test_nan_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        encode_manifest(replace(example(), operators=(OperatorState("s", {"x": float("nan")}, ()),)))


@given(chunks=st.lists(st.binary(max_size=20), max_size=5))
def test_a_checksum_does_not_depend_on_how_the_bytes_are_cut(chunks: list[bytes]) -> None:
    assert checksum_of(chunks) == checksum_of([b"".join(chunks)])


def test_the_checksum_is_xxh3_64() -> None:
    assert checksum_of([]) == "2d06800538d394c2"
