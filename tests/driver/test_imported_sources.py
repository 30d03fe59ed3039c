"""The sources of a query of Spark as those of a job: which is which, and what each has read."""

import json
from pathlib import Path

import pytest

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config import SourceSpec
from mixedmode.driver.imported_sources import matched_sources, sources_of_spark
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.job import Source
from mixedmode.spark_state.progress import SparkProgress

KAFKA = '{"orders":{"0":12,"1":7}}'
FIRST = b'\x00v1\n{"orders":{"0":0,"1":0}}'


def line(file: str, number: int) -> str:
    return json.dumps({"path": f"file://{file}", "timestamp": 5, "batchId": number})


def spark(folder: Path, *lines: str) -> tuple[ObjectStore, SparkProgress]:
    """A checkpoint whose source 0 has read two files of /in a/x; source 1 is Kafka."""
    store = ObjectStore(folder)
    store.put("sources/0/0", f"v1\n{line('/in%20a/x/1.json', 0)}".encode())
    store.put("sources/0/1", f"v1\n{line('/in%20a/x/2.json', 1)}".encode())
    store.put("sources/1/0", FIRST)
    return store, SparkProgress(4, 0, 0, 1, lines)


def files(path: str) -> SourceSpec:
    return Source.json(path, schema="k string")


def kafka(*topics: str) -> SourceSpec:
    return Source.kafka(list(topics), bootstrap_servers="localhost:9092", value="json", schema="k string")


def test_files_and_topics_are_found_whatever_their_order(tmp_path: Path) -> None:
    found = sources_of_spark(*spark(tmp_path, '{"logOffset":1}', KAFKA))
    matched = matched_sources(found, {"topics": kafka("orders"), "lines": files("/in a/x")})
    assert {name: source.number for name, source in matched.items()} == {"topics": 1, "lines": 0}
    assert matched["topics"].line == KAFKA
    assert matched["topics"].entries == {"0": FIRST}
    assert list(matched["lines"].entries) == ["0", "1"]
    log = matched["lines"].log(3)
    assert log is not None
    assert (log.source, log.end, log.files) == (3, 1, 2)


def test_files_of_a_batch_that_was_not_committed_are_left_out(tmp_path: Path) -> None:
    (found,) = sources_of_spark(*spark(tmp_path, '{"logOffset":0}'))
    assert found.read == {"file:///in%20a/x/1.json"}


@pytest.mark.parametrize("path", ["/in a", "/in a/x/*.json", "/in a/*"])
def test_a_path_may_be_a_pattern(tmp_path: Path, path: str) -> None:
    found = sources_of_spark(*spark(tmp_path, '{"logOffset":1}'))
    assert set(matched_sources(found, {"lines": files(path)})) == {"lines"}


@pytest.mark.parametrize(
    "specs",
    [
        {"a": files("/in")},
        {"a": files("/in a/xy")},
        {"a": kafka("orders")},
        {"a": files("/in a/x"), "b": files("/in a/x")},
        {},
    ],
)
def test_other_sources_are_refused(tmp_path: Path, specs: dict[str, SourceSpec]) -> None:
    found = sources_of_spark(*spark(tmp_path, '{"logOffset":1}'))
    with pytest.raises(InvalidJobError, match=r"sources_in_spark=\(0: files file:///in%20a/x/1\.json"):
        matched_sources(found, specs)


def test_other_topics_are_refused(tmp_path: Path) -> None:
    found = sources_of_spark(*spark(tmp_path, KAFKA))
    with pytest.raises(InvalidJobError, match=r"sources_in_spark=\(0: kafka orders\)"):
        matched_sources(found, {"a": kafka("orders", "refunds")})


def test_a_source_without_input_so_far_may_be_any(tmp_path: Path) -> None:
    found = sources_of_spark(*spark(tmp_path, '{"logOffset":1}', "-"))
    matched = matched_sources(found, {"a": kafka("orders"), "b": files("/in a")})
    assert {name: source.line for name, source in matched.items()} == {"a": "-", "b": '{"logOffset":1}'}


@pytest.mark.parametrize("offset", ["17", '{"endOffset":1}', "[]", '"x"'])
def test_another_kind_of_source_is_refused(tmp_path: Path, offset: str) -> None:
    with pytest.raises(InvalidJobError, match="neither of files nor of Kafka"):
        sources_of_spark(*spark(tmp_path, offset))


def test_an_entry_that_is_gone_or_cut_is_damage(tmp_path: Path) -> None:
    store, progress = spark(tmp_path, '{"logOffset":1}')
    store.put("sources/0/1", b"v1\n{")
    with pytest.raises(CorruptStateError, match="cannot be read"):
        sources_of_spark(store, progress)
    store.delete(["sources/0/1"])
    with pytest.raises(CorruptStateError, match=r"is missing.* entry=sources/0/1"):
        sources_of_spark(store, progress)
