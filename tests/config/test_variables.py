"""Variables of the environment that a job names and this process does not have are found, each with its setting."""

from pathlib import Path

import pytest

from mixedmode.config import load_job
from mixedmode.config.variables import unset_variables
from tests.harness import write_text

JOB = """\
name: variables
execution.checkpointing.dir: ./run
spark: {hadoop.fs.s3a.access.key: "${env:A}"}
sources:
  t: {format: kafka, bootstrap-servers: "${env:B}", topics: t, value: {format: text}, options: {kafka.x.y: "${env:C}"}}
steps:
  - sql: SELECT value, '${env:IN_SQL}' AS x FROM t
  - key-by: value
    async-map: module:Class
    args: {url: "https://${env:D}/", lists: [[1, "${env:E}"]]}
    output: answer string
    on-error: dead-letter
    dead-letter: {format: postgres, url: "${env:F}", table: failed}
sink: {format: kafka, bootstrap-servers: "b:1", topic: out, options: {kafka.x.y: "${env:SET} ${env:G} ${env:G}"}}
"""


def test_each_unset_variable_is_named_once_with_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ABCDEFG":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SET", "x")
    job = load_job(write_text(tmp_path, "job.yaml", JOB))
    found = {name: job.where(*path).rpartition("job.yaml:")[2] for path, name in unset_variables(job.spec)}
    assert found == {
        "A": "3: spark.hadoop.fs.s3a.access.key",
        "B": "5: sources.t.bootstrap-servers",
        "C": "5: sources.t.options.kafka.x.y",
        "D": "10: steps[1].args.url",
        "E": "10: steps[1].args.lists[0][1]",
        "F": "13: steps[1].dead-letter.url",
        "G": "14: sink.options.kafka.x.y",
    }
    assert len(list(unset_variables(job.spec))) == len(found)
