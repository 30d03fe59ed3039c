"""The effects of our session on Spark's processes."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.private_folder import own_temporary_folder
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.spark import settings
from mixedmode.spark.session import open_session
from mixedmode.spark.settings import settings_of
from mixedmode.spark.socket_folder import socket_folder
from mixedmode.spark.warm_daemon import WARM

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
_STATUS_FILE = Path("/proc/self/status")
STATUS = _STATUS_FILE.read_text() if _STATUS_FILE.exists() else ""


def parent(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The command line of the process that forked this worker, and whether the worker talks over local sockets."""
    command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().replace("\0", " ")
    is_local = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower()
    yield pa.record_batch([[f"{command} local={is_local}"]], names=["command"])


def huge_pages(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield whether this worker may have transparent huge pages."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    yield pa.record_batch([[int(status["THP_enabled"])]], names=["may"])


def arrows_allocator(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of this worker."""
    yield pa.record_batch([[pa.default_memory_pool().backend_name]], names=["name"])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep what is freed")
def test_arrow_takes_memory_from_where_it_is_kept(spark: SparkSession) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(arrows_allocator, "name string").collect()
    assert row["name"] == "system"


@pytest.mark.skipif("THP_enabled" not in STATUS, reason="the kernel does not say whether a process has huge pages")
def test_workers_have_small_pages(spark: SparkSession) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(huge_pages, "may long").collect()
    assert row.may == 0


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc, which only Linux has")
def test_workers_are_forked_by_the_daemon_that_has_what_tasks_import(spark: SparkSession) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(parent, "command string").collect()
    assert "-m mixedmode.spark.daemon" in row.command


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc, which only Linux has")
@pytest.mark.parametrize(
    ("variables", "temporary"),
    [
        pytest.param({}, "", id="default hashes"),
        pytest.param({"PYTHONHASHSEED": "7"}, "", id="hashes of a seed", marks=pytest.mark.soak),
        pytest.param({}, "long" * 20, id="a temporary folder with a long name", marks=pytest.mark.soak),
    ],
)
def test_the_first_workers_of_a_program_are_forked_by_a_daemon_that_was_started_early(
    tmp_path: Path, variables: dict[str, str], temporary: str
) -> None:
    """In a program of its own: Spark starts a later daemon itself, such as after the end of the first one."""
    folder = tmp_path / temporary if temporary else Path(tempfile.gettempdir())
    folder.mkdir(exist_ok=True)
    program = (
        "from pathlib import Path\n"
        "from mixedmode import Job, Sink, Source\n"
        "from mixedmode.spark.session import open_session\n"
        "from tests.harness import SPARK\n"
        "from tests.spark.test_session import parent\n"
        f"here = Path({str(tmp_path)!r})\n"
        "job = Job('early', sources={'t': Source.parquet(here, bounded=True)}, spark=SPARK)\n"
        "job = job.sql('SELECT * FROM t').write(Sink.console())\n"
        "session = open_session(job.spec, log_folder=here)\n"
        "print(session.range(0, 1, 1, 1).mapInArrow(parent, 'command string').collect())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    environment |= {**variables, "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert f"-m mixedmode.spark.daemon {WARM}" in done.stdout, "it was not refused"
    assert "local=true" in done.stdout, "TCP would let each task wait"
    assert set(own_temporary_folder().glob("sockets-*")) == {socket_folder()}, "the program has left sockets"


def test_the_jvm_begins_before_arrow_and_numpy_are_imported() -> None:
    program = "import mixedmode.driver.early, sys; print(sorted({'numpy', 'pandas', 'pyarrow'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", "the start of each job waits for them"


def test_java_has_its_log_and_compiles_later(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    arguments = list(gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    assert any(argument.startswith("-Dmixedmode.log=") for argument in arguments), arguments
    assert "-XX:Tier4InvocationThreshold=50000" in arguments, arguments


def test_names_that_each_start_asks_for_are_asked_for_once(spark: "SparkSession") -> None:
    kept = vars(spark.sparkContext._jvm)
    assert {"PythonRDD", "PythonForeachBatchHelper", "PythonUtils", "SimplePythonFunction"} <= kept.keys()
    assert {"org", "py4j"} <= kept.keys()


def test_workers_use_tcp_if_there_can_be_no_folder_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise OSError

    monkeypatch.setattr(settings, "socket_folder", none)
    job = Job("tests", sources={"t": Source.parquet(tmp_path, bounded=True)}).sql("SELECT * FROM t")
    names = settings_of(job.write(Sink.console()).spec, tmp_path).keys()
    assert not [name for name in names if "unix.domain" in name]


_SETTINGS = ("spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.session.timeZone")


def opened(**own: str) -> SparkSession:
    """The session of a job with these settings of Spark."""
    job = Job("j", sources={"t": Source.parquet("t")}, mode="batch", spark={f"spark.{k}": v for k, v in own.items()})
    return open_session(job.key_by("k").aggregate(n="count(*)").write(Sink.parquet("out")).spec)


def values(session: SparkSession) -> list[str | None]:
    return [session.conf.get(name, None) for name in _SETTINGS]


def test_a_job_has_the_settings_of_the_program_and_its_own_but_none_of_another_job(spark: SparkSession) -> None:
    before = values(opened())
    spark.conf.set("spark.sql.ansi.enabled", "false")  # the program's own
    try:
        first = opened(**{"sql.ansi.enabled": "true", "sql.caseSensitive": "true"})
        second = opened(**{"sql.session.timeZone": "Europe/Berlin"})
        assert values(first) == ["true", "true", before[2]], "the second job changed what the first one computes"
        assert values(second) == ["false", before[1], "Europe/Berlin"]
        assert values(opened()) == ["false", *before[1:]]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_the_session_of_the_program_keeps_its_settings_and_views(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"k": "of the job"}')
    spark.range(3).createOrReplaceTempView("rows")
    settings = spark.conf.getAll
    spark_section: dict[str, str | int | float | bool] = {"sql.session.timeZone": "Asia/Tokyo"}
    rows = Source.json(tmp_path / "in", schema="k string")
    job = Job("j", sources={"rows": rows}, mode="batch", spark=spark_section)
    try:
        table = job.sql("SELECT upper(k) AS k FROM rows").write(Sink.parquet(tmp_path / "out")).run().table()
        assert table.column("k").to_pylist() == ["OF THE JOB"]
        assert spark.table("rows").count() == 3, "a view of the program, with the name of a source, was replaced"
        assert spark.conf.getAll == settings
    finally:
        spark.catalog.dropTempView("rows")


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED"])
def test_a_session_of_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "connect")
    with pytest.raises(InvalidJobError, match=f"a job needs a session of Spark itself.* found={variable}$"):
        opened()


@pytest.mark.parametrize("setting", ["remote", "api.mode"])
def test_a_setting_that_asks_for_spark_connect_is_refused(setting: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"found=spark\.{setting}$"):
        opened(**{setting: "connect"})
