"""The class that writes Spark's log: it starts no process, writes what Spark's own class writes, and is not needed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.spark.log_files import write_without_processes
from mixedmode.spark.settings import LOG_WRITER, SPARKS_LOG_WRITER

pytestmark = pytest.mark.spark

OURS = "mixedmode.LogFiles"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as it begins, in a thread whose loader of classes does not know the class."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    assert context._gateway is not None
    thread = jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    no_urls = context._gateway.new_array(jvm.java.net.URL, 0)
    thread.setContextClassLoader(jvm.org.apache.spark.util.MutableURLClassLoader(no_urls, loader.getParent()))
    session = spark.newSession()
    session.conf.set(LOG_WRITER, SPARKS_LOG_WRITER)
    yield session
    thread.setContextClassLoader(loader)


def writer_of(session: SparkSession, folder: Path) -> Any:
    """The object that writes files into a folder."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder.as_uri())
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    conf = session._jsparkSession.sessionState().newHadoopConf()
    return checkpointing.CheckpointFileManager.create(path, conf)


def written(session: SparkSession, folder: Path, content: bytes) -> dict[str, bytes]:
    """The files of a folder in which a file was made, {path: content}."""
    jvm: Any = session._jvm
    writer = writer_of(session, folder)
    writer.mkdirs(jvm.org.apache.hadoop.fs.Path((folder / "offsets").as_uri()))
    stream = writer.createAtomic(jvm.org.apache.hadoop.fs.Path((folder / "offsets" / "0").as_uri()), False)
    stream.write(content)
    stream.close()
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_session_has_it(spark: SparkSession) -> None:
    assert spark.conf.get(LOG_WRITER) == OURS
    assert write_without_processes(spark), "nothing is left to do"


def test_it_writes_what_sparks_class_writes_but_gives_no_permissions(session: SparkSession, tmp_path: Path) -> None:
    before = written(session, tmp_path / "sparks", b"v1")
    assert write_without_processes(session, cache=tmp_path / "cache")
    assert written(session, tmp_path / "ours", b"v1") == before
    assert before.keys() == {"offsets/0", "offsets/.0.crc"}
    files = writer_of(session, tmp_path / "ours").fs()
    assert files.getRaw().getClass().getName().startswith(OURS), "Hadoop's own class starts chmod"


def test_it_is_compiled_once(session: SparkSession, tmp_path: Path) -> None:
    assert write_without_processes(session, cache=tmp_path)
    (compiled,) = (tmp_path / "log-files").iterdir()
    files = {file: file.stat().st_mtime_ns for file in compiled.rglob("*.class")}
    assert {file.name for file in files} == {"LogFiles.class", "LogFiles$1.class"}
    session.conf.set(LOG_WRITER, SPARKS_LOG_WRITER)
    assert write_without_processes(session, cache=tmp_path)
    assert {file: file.stat().st_mtime_ns for file in compiled.rglob("*.class")} == files


def test_a_damaged_one_is_left_and_compiled_anew_by_the_next_session(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = tmp_path / "log-files" / "damaged"
    (compiled / "mixedmode").mkdir(parents=True)
    (compiled / "mixedmode" / "LogFiles.class").write_bytes(b"\xca\xfe")
    monkeypatch.setattr("mixedmode.spark.log_files._folder", lambda _: compiled)
    assert not write_without_processes(session, cache=tmp_path)
    assert session.conf.get(LOG_WRITER) == SPARKS_LOG_WRITER
    assert not compiled.exists()
    assert write_without_processes(session, cache=tmp_path)


def test_spark_writes_itself_if_the_cache_cannot_be_written(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not write_without_processes(session, cache=tmp_path / "file")
    assert session.conf.get(LOG_WRITER) == SPARKS_LOG_WRITER
    assert "offsets/0" in written(session, tmp_path / "sparks", b"v1")


def test_another_class_is_of_the_user(session: SparkSession, tmp_path: Path) -> None:
    chosen = SPARKS_LOG_WRITER.replace("FileSystemBased", "FileContextBased")
    session.conf.set(LOG_WRITER, chosen)
    assert not write_without_processes(session, cache=tmp_path)
    assert session.conf.get(LOG_WRITER) == chosen
