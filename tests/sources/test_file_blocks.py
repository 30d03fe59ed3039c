"""Blocks of whole lines, and bytes that are no UTF-8: in a scan, and in a job over CSV."""

import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines, not_utf8, parts_of
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, manifests, output_rows, run

LATIN = "k,v\na,1\nb,2\nZ\u00fcrich,3\n".encode("latin-1")


@given(data=st.data())
def test_each_line_of_a_file_is_scanned_in_exactly_one_part(data: st.DataObject, tmp_path_factory: Any) -> None:
    numbers = data.draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
    text = "".join(f'{{"a":{number}}}\n' for number in numbers)[: -1 if data.draw(st.booleans()) else None]
    path = tmp_path_factory.mktemp("scan") / "a.json"
    path.write_text(text)
    cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=4))})
    parts = [FilePart(str(path), begin, end) for begin, end in itertools.pairwise(cuts)]
    found = [b"".join(blocks_of_lines(part)) for part in parts]
    assert b"".join(found).decode() == text
    assert all(one.startswith(b"{") for one in found if one)


def test_files_with_bytes_that_are_no_utf8_are_found(tmp_path: Path) -> None:
    files = {
        "ascii.csv": b"a,b\n",
        "utf8.csv": "\u00fc,\u20ac\n".encode(),
        "latin.csv": LATIN,
        "latin.csv.gz": gzip.compress(LATIN),
        "cut.csv": "\u20ac".encode()[:2],
        "damaged.csv.gz": gzip.compress(b"a,b\n")[:-3],
        "unknown.csv.lz4": b"\xff",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    parts = [part for name, content in files.items() for part in parts_of(str(tmp_path / name), len(content))]
    assert [Path(path).name for path in not_utf8(parts)] == ["latin.csv", "latin.csv.gz", "cut.csv"]


@pytest.mark.parametrize("mode", ["batch", "mixed"])
@pytest.mark.parametrize("options", [{}, {"encoding": "ISO-8859-1"}, {"mode": "PERMISSIVE"}], ids=str)
def test_csv_in_another_encoding_is_refused_unless_the_job_names_it(
    spark: SparkSession, tmp_path: Path, mode: Any, options: dict[str, str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(LATIN)
    checkpoints = None if mode == "batch" else tmp_path / "checkpoints"
    source = Source.csv(tmp_path / "in", schema="k string, v long", options={"header": "true", **options})
    job = Job("towns", sources={"t": source}, mode=mode, checkpoint_dir=checkpoints, spark=SPARK)
    job = job.key_by("k").aggregate(v="sum(v)").write(Sink.parquet(tmp_path / "out"))
    if not options:
        with pytest.raises(InvalidJobError, match=r"bytes that are not UTF-8.* file=.*/in/a\.csv, line=4$"):
            run(job, spark)
        assert checkpoints is None or not manifests(checkpoints)
        return
    run(job, spark)
    found = {row["k"] for row in output_rows(tmp_path / "out")}
    assert found == {"a", "b", "Z\u00fcrich" if "encoding" in options else "Z\ufffdrich"}
