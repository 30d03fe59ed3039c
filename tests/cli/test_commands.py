"""The commands that look and do not run: validate, explain, checkpoints, table, doctor; as a shell would call them.

They share the test process's Spark, so nothing is started here; `run` has processes of its own, in tests/faults.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job
from mixedmode.sinks.table import output_files
from tests.cli.shell import command, lines
from tests.harness import ManualClock, run, write_json, write_text

pytestmark = pytest.mark.spark

JOB = """\
name: shops
execution: {runtime-mode: mixed, checkpointing: {dir: ./checkpoints, interval: 5s}}
parallelism: 2
pipeline.max-parallelism: 16
spark: {master: "local[2]"}
sources:
  sales:
    {format: json, path: in, schema: "k string, v long, at timestamp", event-time: at, watermark.out-of-orderness: 1h}
steps:
  - sql: |
      SELECT * FROM sales
      WHERE v > 0
  - key-by: [k]
    aggregate: {n: count(*), mean: avg(v)}
sink: {format: parquet, path: out}
"""
NOW_MS = int(datetime(2001, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1000


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the job ran: a backlog of three records over two keys, and one live epoch."""
    folder = tmp_path_factory.mktemp("ran")
    file = write_text(folder, "job.yaml", JOB)
    history = [{"k": k, "v": v, "at": "2001-01-01 00:00:00"} for k, v in (("a", 1), ("a", 2), (None, 3), ("b", 0))]
    live = [{"k": "c", "v": 2_000_000, "at": "2001-01-01 03:00:00"}]
    write_json(folder / "in", "history.json", history)
    feed = [lambda: write_json(folder / "in", "live.json", live)]
    run(Job.from_file(file), spark, feed=feed, clock=ManualClock(NOW_MS))
    return folder


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_text(tmp_path, "job.yaml", JOB)


def test_validate_names_the_columns_of_the_result(job: Path) -> None:
    assert lines(command("validate", job)) == [f"{job} is valid. Result: k string, n int64, mean double"]
    assert not (job.parent / "checkpoints").exists(), "validating runs nothing and writes nothing"
    assert not (job.parent / "out").exists()


def test_validate_tells_of_variables_that_only_a_run_needs(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that checks a job file may lack the secrets on purpose."""
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    database = "format: postgres, url: 'postgresql://shop:${env:SHOP_PASSWORD}@db:5432/shop', table: shops"
    write_text(job.parent, "job.yaml", JOB.replace("format: parquet, path: out", database))
    told, valid = lines(command("validate", job))
    said = "a run needs a variable of the environment that is not set here. variable=SHOP_PASSWORD"
    assert told == f"{job}:15: sink.url: {said}"
    assert valid.startswith(f"{job} is valid.")


def test_validate_says_what_is_wrong_and_where(job: Path) -> None:
    wrong = command("validate", job, "--set", "parallelism=two")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.splitlines()[0] == "error InvalidJobError"
    assert "--set parallelism" in wrong.stderr
    write_text(job.parent, "job.yaml", JOB.replace("avg(v)", "avg(w)"))
    wrong = command("validate", job)
    assert wrong.exit_code == 2
    assert wrong.stderr.splitlines()[1].startswith(
        f"{job}:14: steps[1].aggregate.mean: Spark refuses this SQL. cause=A column, variable, or function parameter "
        "with name `w` cannot be resolved."
    )


def test_explain_shows_the_plan_of_a_mixed_job(job: Path) -> None:
    folder = job.parent
    assert lines(command("explain", job)) == [
        "shops: mixed mode",
        f"source sales: json {folder}/in",
        "  read by     the map tasks themselves (k, v, at), an epoch with unusual lines by Spark",
        "  event time  at; no watermark, because no step goes by event time",
        "stage 1: aggregate-1",
        "  sql         SELECT * FROM sales WHERE v > 0",
        "              on Arrow",
        "  exchange    by key (k string), Arrow blocks, combined per key before the shuffle, 16 key groups",
        "  key groups  subtask 0 [0, 8), subtask 1 [8, 16)",
        "  computes    n int64, mean double",
        "  state       4 columns per key",
        "  backlog     sorted strategy, single-key backend; (key, state) pairs move to RocksDB as sorted runs",
        "  live        streaming strategy, RocksDB state",
        f"sink: parquet {folder}/out",
        "  upserts     one row per changed key (k) and epoch, with _op and _epoch",
        "committed",
        "  backlog     nothing before the flip; one manifest at the flip: state runs, offsets, outputs",
        "  live        one manifest every 5s in which there is something new",
        "  outputs are published after their manifest, under names that a repeat of the epoch uses again",
    ]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("execution.runtime-mode=batch", "  batch       sorted strategy, single-key backend, state dropped at the end"),
        ("execution.runtime-mode=streaming", "  backlog     streaming strategy, RocksDB state"),
        ("execution.interval-during-backlog=2s", "  backlog     one manifest per epoch, each of about 2s"),
        ("execution.backlog.parallelism=1", "              in backlog subtask 0 [0, 16)"),
    ],
)
def test_explain_shows_what_a_setting_changes(job: Path, setting: str, expected: str) -> None:
    assert expected in lines(command("explain", job, "--set", setting))


def test_explain_draws_one_drawing_at_a_time(job: Path) -> None:
    assert lines(command("explain", job, "--dot"))[0].startswith("digraph")
    assert "flowchart" in lines(command("explain", job, "--mermaid"))[0]
    refused = command("explain", job, "--dot", "--mermaid")
    assert refused.exit_code == 2
    assert "give --dot or --mermaid" in refused.stderr


def test_checkpoints_shows_one_checkpoint_at_the_flip_and_one_per_live_epoch(ran: Path) -> None:
    shown = lines(command("checkpoints", ran / "checkpoints"))
    assert shown[0] == "shops: 2 checkpoints, max-parallelism 16"
    assert shown[1].split() == [
        *("epoch", "backlog", "strategy", "subtasks", "records", "rows", "out", "pairs", "state"),
        *("watermark", "offsets", "taken", "at"),
    ]
    backlog, live = (line.split() for line in shown[2:4])
    assert backlog[:7] == ["0", "yes", "sorted", "2", "3", "2", "2"]
    assert live[:7] == ["1", "no", "streaming", "2", "1", "1", "1"]
    assert backlog[9:] == ["none", "0", "2001-01-02", "03:04:05", "UTC"]
    assert live[9:] == ["none", "1", "2001-01-02", "03:04:05", "UTC"]
    operator = shown[-1].split()
    assert operator[0] == "aggregate-1"
    assert operator[3] == "3", "entries"


def test_checkpoints_shows_a_damaged_one_as_damaged(ran: Path, tmp_path: Path) -> None:
    copy = tmp_path / "checkpoints"
    for name in ("job.json", "manifests/0000000000.json", "manifests/0000000001.json"):
        write_text((copy / name).parent, Path(name).name, (ran / "checkpoints" / name).read_text())
    write_text(copy / "manifests", "0000000000.json", "{")
    shown = lines(command("checkpoints", copy))
    assert any("damaged" in line for line in shown)
    assert any(line.split()[:3] == ["1", "no", "streaming"] for line in shown)


def test_checkpoints_before_the_flip_says_that_there_is_none(ran: Path, tmp_path: Path) -> None:
    write_text(tmp_path, "job.json", (ran / "checkpoints" / "job.json").read_text())
    shown = lines(command("checkpoints", tmp_path))
    assert shown == ["shops: no checkpoint yet (a backlog that is still running takes none)"]


def test_a_folder_without_checkpoints_or_output_is_refused(tmp_path: Path) -> None:
    wrong = command("checkpoints", tmp_path)
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        (
            "error InvalidJobError\nthis is not a checkpoint folder: there is no job.json in it. Name the folder that "
            f"the job file gives in execution.checkpointing.dir. folder={tmp_path}\n"
        ),
    )
    wrong = command("table", tmp_path)
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        (
            "error InvalidJobError\nthis is not the output of a job: there is no _mixedmode in it. Name the "
            "folder that the job file gives in sink.path. A sink without a folder is read where it writes: PostgreSQL "
            "with psql, SQLite with sqlite3, Kafka with a consumer, a table of a catalog with Spark. "
            f"folder={tmp_path}\n"
        ),
    )


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("_delta_log/00000000000000000000.json", "{}", "this is a Delta table"),
        ("metadata/v1.metadata.json", "{}", "this is an Iceberg table"),
    ],
)
def test_for_a_lakehouse_table_the_message_says_what_reads_it(path: str, text: str, what: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(text)
    wrong = command("table", tmp_path)
    assert wrong.exit_code == 2
    assert what in wrong.stderr
    assert "Read it with Spark" in wrong.stderr.replace("\n", " ")
    assert "sink.path" not in wrong.stderr


@pytest.mark.parametrize("name", ["checkpoints", "table"])
def test_a_job_file_in_place_of_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    write_text(tmp_path, "job.yaml", "name: shops\n")
    wrong = command(name, tmp_path / "job.yaml")
    assert wrong.exit_code == 2
    assert "Name the folder that the job file gives in " in wrong.stderr.replace("\n", " ")
    assert wrong.stderr.rstrip().endswith(f"folder={tmp_path}/job.yaml")


def test_table_shows_the_current_rows_by_key(ran: Path) -> None:
    assert lines(command("table", ran / "out")) == [
        "k     n   mean",
        "a     2    1.5",
        "c     1  2e+06",
        "NULL  1      3",
        "3 rows",
    ]


def test_table_shows_the_first_rows_only_and_says_how_many_there_are(ran: Path) -> None:
    shown = lines(command("table", ran / "out", "--limit", "1"))
    assert shown == ["k  n  mean", "a  2   1.5", "the first 1 of 3 rows"]
    assert lines(command("table", ran / "out", "--limit", "0"))[-1] == "3 rows"


def test_table_prints_the_files_that_count_one_a_line(ran: Path) -> None:
    shown = command("table", ran / "out", "--files").stdout.splitlines()
    assert shown == output_files(ran / "out")
    assert all(Path(file).is_file() for file in shown)


def test_doctor_says_that_a_job_can_run_here() -> None:
    shown = lines(command("doctor"))
    assert shown[-1] == "A job can run here."
    assert any("pyspark" in line and " ok " in line for line in shown)
