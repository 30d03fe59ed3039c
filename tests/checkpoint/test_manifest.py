"""Manifests, identity and starts as bytes: exact, self-proving, readable for ever."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.document import DocumentKind, decode_document, encode_document
from mixedmode.checkpoint.manifest import (
    decode_identity,
    decode_manifest,
    decode_start,
    encode_identity,
    encode_manifest,
    encode_start,
)
from mixedmode.checkpoint.types import (
    Epoch,
    Generation,
    JobIdentity,
    JoinFigures,
    ListState,
    Manifest,
    OperatorState,
    RunFile,
    SourceLog,
    SourceProgress,
    StagedFile,
    Start,
)
from mixedmode.errors import CorruptStateError
from mixedmode.time import SplitProgress
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
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
CLIPS = st.none() | st.tuples(COUNT, COUNT)
RUNS = st.builds(RunFile, TEXT, COUNT, COUNT, COUNT, COUNT, COUNT, TEXT, TEXTS, CLIPS)
STAGED = st.builds(StagedFile, TEXT, TEXT, COUNT, COUNT, TEXT, TEXT)
SCHEMAS = st.dictionaries(TEXT, JSON, max_size=3)
STATES = st.builds(OperatorState, TEXT, SCHEMAS, st.lists(RUNS, max_size=3).map(tuple), COUNT)
LISTS = st.builds(ListState, TEXT, st.sampled_from(["split", "union", None]), st.lists(TEXTS, max_size=3).map(tuple))
SPLITS = st.dictionaries(TEXT, st.builds(SplitProgress, st.none() | INT64, INT64), max_size=3)
PROGRESS = st.builds(SourceProgress, COUNT, st.none() | INT64, st.none() | INT64, SPLITS)
LOGS = st.builds(SourceLog, COUNT, st.none() | COUNT, COUNT, TEXT)
MANIFESTS = st.builds(
    Manifest,
    job=TEXT,
    source_logs=st.lists(LOGS, max_size=3).map(tuple),
    epoch=COUNT.map(Epoch),
    generation=COUNT.map(Generation),
    previous=st.none() | COUNT.map(Epoch),
    created_ms=INT64,
    is_backlog=st.booleans(),
    strategy=st.sampled_from(["sorted", "streaming"]),
    parallelism=COUNT,
    max_parallelism=COUNT,
    sources=st.dictionaries(TEXT, PROGRESS, max_size=3),
    offsets=TEXT,
    operators=st.lists(STATES, max_size=3).map(tuple),
    outputs=st.lists(STAGED, max_size=3).map(tuple),
    records_in=COUNT,
    rows_out=COUNT,
    pairs=COUNT,
    watermark_us=st.none() | INT64,
    clock_ms=st.none() | INT64,
    records_skipped=COUNT,
    output_names=st.lists(TEXT, max_size=3).map(tuple),
    is_final=st.booleans(),
    records_late=COUNT,
    records_ahead=COUNT,
    list_states=st.lists(LISTS, max_size=2).map(tuple),
    backlog_sources=TEXTS,
    output_contents=st.dictionaries(TEXT, TEXT, max_size=2),
    dimensions=st.dictionaries(TEXT, TEXT, max_size=2),
    topic_ids=st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
    rows_read=st.dictionaries(TEXT, COUNT, max_size=2),
    joins=st.dictionaries(TEXT, st.builds(JoinFigures, st.tuples(COUNT, COUNT), COUNT, COUNT), max_size=2),
)

MANIFEST = (
    b'{"kind":"mixedmode-manifest","format_version":3,"checksum":"34b96d3a5b629bea","content":{"job":"airp'
    b'ort-delays","epoch":1,"generation":1,"previous":0,"created_ms":1700000000000,"is_backlog":false,"str'
    b'ategy":"streaming","parallelism":2,"max_parallelism":128,"sources":{"flights":{"records":1000,"max_e'
    b'vent_time_us":1699999999000000,"watermark_us":1699999998000000,"splits":{"":{"max_time_us":169999999'
    b'9000000,"active_ms":1700000000000},"\xcf\x80":{"max_time_us":null,"active_ms":5}}}},"offsets":"v1\\n'
    b'{\\"batchWatermarkMs\\":0,\\"batchTimestampMs\\":1700000000000}\\n{\\"logOffset\\":0}","operators":['
    b'{"operator_id":"step-1","state_schema":{"columns":["n","\xce\xa3"],"format":1},"runs":[{"path":"runs'
    b'/step-1/0000000000-0000000000-a.sst","state_id":0,"bytes":5,"entries":2,"key_group_start":32,"key_gr'
    b'oup_end":64,"checksum":"0000000000000000","merged_from":[],"clipped_from":[0,64],"deletions":0},{"pa'
    b'th":"runs/step-1/0000000001-0000000000-a.sst","state_id":0,"bytes":5,"entries":2,"key_group_start":0'
    b',"key_group_end":64,"checksum":"0000000000000000","merged_from":[],"clipped_from":null,"deletions":0'
    b'}],"parallelism":4}],"outputs":[{"staged_path":"_staging/0000000001-0000000000-a.parquet.staged","fi'
    b'nal_path":"part-0000000001-0000000000.parquet","bytes":7,"rows":3,"checksum":"ffffffffffffffff","sin'
    b'k":""},{"staged_path":"_staging/0000000001-0000000000-a.parquet.staged","final_path":"part-000000000'
    b'1-0000000000.parquet","bytes":7,"rows":3,"checksum":"ffffffffffffffff","sink":"late"}],"records_in":'
    b'1000,"rows_out":3,"pairs":3,"watermark_us":1699999998000000,"clock_ms":1700000000001,"is_final":true'
    b',"records_late":2,"records_ahead":1,"records_skipped":4,"output_names":["","late"],"list_states":[{"'
    b'operator_id":"numbering","redistribution":"split","lists":[["oQ==","wA=="],[]]},{"operator_id":"fixe'
    b'd","redistribution":null,"lists":[["wA=="]]}],"backlog_sources":["flights"],"source_logs":[{"source"'
    b':0,"end":7,"files":12,"checksum":"00ff00ff00ff00ff"},{"source":1,"end":null,"files":0,"checksum":"2d'
    b'06800538d394c2"}],"output_contents":{"":"0123456789abcdef","late":""},"step_watermarks":{"windows":1'
    b'699999997000000},"dimensions":{"airports":"snapshot 7"},"topic_ids":{"flights":{"flights-1":"Mj9cHMs'
    b'mQDKAC5QGnoEK0A"}},"rows_read":{"step-1":998},"joins":{"priced":{"late":[1,0],"fan_out_max":9,"fan_o'
    b'ut_p99":3}}}}\n'
)


def example() -> Manifest:
    """Return a manifest with the fields that most manifests have."""
    return a_manifest(1, runs=[a_run(1)], outputs=[a_staged(1)])


def full_example() -> Manifest:
    """With all that a manifest can say."""
    splits = {"": SplitProgress(1_699_999_999_000_000, 1_700_000_000_000), "π": SplitProgress(None, 5)}
    clipped = replace(a_run(0), key_group_start=32, clipped_from=(0, 64))
    (operator,) = example().operators
    return replace(
        example(),
        sources={"flights": SourceProgress(1000, 1_699_999_999_000_000, 1_699_999_998_000_000, splits)},
        outputs=(a_staged(1), replace(a_staged(1), sink="late")),
        watermark_us=1_699_999_998_000_000,
        clock_ms=1_700_000_000_001,
        records_skipped=4,
        output_names=("", "late"),
        is_final=True,
        records_late=2,
        records_ahead=1,
        operators=(replace(operator, runs=(clipped, *operator.runs), parallelism=4),),
        list_states=(ListState("numbering", "split", (("oQ==", "wA=="), ())), ListState("fixed", None, (("wA==",),))),
        backlog_sources=("flights",),
        source_logs=(SourceLog(0, 7, 12, "00ff00ff00ff00ff"), SourceLog(1, None, 0, "2d06800538d394c2")),
        output_contents={"": "0123456789abcdef", "late": ""},
        step_watermarks={"windows": 1_699_999_997_000_000},
        dimensions={"airports": "snapshot 7"},
        topic_ids={"flights": {"flights-1": "Mj9cHMsmQDKAC5QGnoEK0A"}},
        rows_read={"step-1": 998},
        joins={"priced": JoinFigures((1, 0), 9, 3)},
    )


def test_the_bytes_of_a_manifest_are_those_of_its_format() -> None:
    assert encode_manifest(full_example()) == MANIFEST, "a change of these bytes is a new format version"
    assert decode_manifest(MANIFEST, where="here") == full_example()


def test_the_bytes_of_identity_and_start_are_those_of_format_1() -> None:
    assert encode_identity(JobIdentity("j", 8, {"s": {"f": 1}})) == (
        b'{"kind":"mixedmode-job","format_version":1,"checksum":"2a2d52f3c953ed1a",'
        b'"content":{"name":"j","max_parallelism":8,"operators":{"s":{"f":1}}}}\n'
    )
    start = Start(Generation(3), "host", 42)
    assert encode_start(start) == (
        b'{"kind":"mixedmode-start","format_version":1,"checksum":"a8845f1eb4b29e97",'
        b'"content":{"generation":3,"host":"host","process":42}}\n'
    )
    assert decode_start(encode_start(start), where="here") == start


@given(manifest=MANIFESTS)
def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest), where="here") == manifest


def test_an_identity_comes_back_as_it_was() -> None:
    assert decode_identity(encode_identity(IDENTITY), where="here") == IDENTITY


def test_a_manifest_with_any_one_bit_flipped_is_refused() -> None:
    for position in range(len(MANIFEST)):
        for bit in range(8):
            flipped = bytearray(MANIFEST)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptStateError):
                decode_manifest(bytes(flipped), where="here")


def test_a_manifest_that_is_cut_short_anywhere_is_refused() -> None:
    for length in range(len(MANIFEST)):
        with pytest.raises(CorruptStateError):
            decode_manifest(MANIFEST[:length], where="here")


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
        "Restore the file, or the whole folder, from a copy. file=/c/manifests/0000000001.json"
    )


def test_a_manifest_of_a_newer_version_says_so_in_full() -> None:
    newer = DocumentKind("mixedmode-manifest", 4, "x")
    with pytest.raises(CorruptStateError) as caught:
        decode_manifest(encode_document(newer, {"anything": "else"}), where="/c/m.json")
    assert str(caught.value) == (
        "the manifest of a checkpoint was written by a newer mixedmode than this one. Nothing was changed. Start the "
        "job with the version that wrote it, or a later one. file=/c/m.json, format_version=4, readable=3"
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


@pytest.mark.parametrize(
    "change", [{"epoch": "1"}, {"epoch": None}, {"strategy": "else"}, {"extra": 1}, {"is_backlog": 1}]
)
def test_a_whole_document_with_other_fields_is_refused(change: dict[str, object]) -> None:
    content = json.loads(encode_manifest(example()))["content"] | change
    with pytest.raises(CorruptStateError, match="its fields are not those of format 3"):
        decode_manifest(encode_document(DocumentKind("mixedmode-manifest", 3, ""), content), where="here")


@pytest.mark.parametrize(
    "name",
    [
        *("watermark_us", "clock_ms", "is_final", "records_late", "output_names", "list_states", "source_logs"),
        *("backlog_sources", "output_contents", "topic_ids"),
    ],
)
def test_a_field_that_has_a_default_is_still_one_that_its_format_must_have(name: str) -> None:
    content = json.loads(encode_manifest(example()))["content"]
    del content[name]
    with pytest.raises(CorruptStateError, match="its fields are not those of format 3"):
        decode_manifest(encode_document(DocumentKind("mixedmode-manifest", 3, ""), content), where="here")


def test_edited_content_does_not_match_its_checksum() -> None:
    edited = encode_manifest(example()).replace(b'"rows_out":3', b'"rows_out":4')
    with pytest.raises(CorruptStateError, match="its checksum does not match its content"):
        decode_manifest(edited, where="here")


@given(content=st.dictionaries(TEXT, JSON, max_size=4))
def test_any_json_content_comes_back_from_a_document(content: dict[str, object]) -> None:
    assert json.loads(decode_document(KIND, encode_document(KIND, content), where="here")) == content


def test_a_document_of_another_format_is_refused_whether_older_or_newer() -> None:
    assert decode_document(KIND, encode_document(KIND, {}), where="here") == b"{}"
    for version, why in ((1, "mixedmode ever wrote, format_version=1"), (3, "was written by a newer mixedmode")):
        other = encode_document(replace(KIND, format_version=version), {})
        with pytest.raises(CorruptStateError, match=why):
            decode_document(KIND, other, where="here")


def test_nan_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        encode_manifest(replace(example(), operators=(OperatorState("s", {"x": float("nan")}, (), 1),)))


@given(chunks=st.lists(st.binary(max_size=20), max_size=5))
def test_a_checksum_does_not_depend_on_how_the_bytes_are_cut(chunks: list[bytes]) -> None:
    assert checksum_of(chunks) == checksum_of([b"".join(chunks)])


def test_the_checksum_is_xxh3_64() -> None:
    assert checksum_of([]) == "2d06800538d394c2"
