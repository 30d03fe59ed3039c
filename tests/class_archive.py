"""Spark's classes, loaded and verified once: an archive that the JVMs of the tests map into memory when they start.

    python -m tests.class_archive FILE [COMMAND ...]     writes it, unless it is there, while the command runs

Most of what a test that kills a job waits for is a JVM that loads Spark. A JVM of another version, or one with other
jars, starts without the archive. mixedmode has such an archive, too (mixedmode/spark/class_archive.py); there, each JVM
that starts before the first one has ended writes its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.faults.processes import finished

#: it goes through a backlog and the flip, and looks for more, so that the classes of all that are loaded
JOB = """\
name: classes
execution: {runtime-mode: mixed, checkpointing: {interval: 1s, dir: ./checkpoints}}
parallelism: 2
spark: {master: "local[2]"}
sources:
  numbers: {format: json, path: ./numbers, schema: "k long, v double"}
steps:
  - sql: SELECT k, v FROM numbers WHERE v >= 0
  - key-by: [k]
    aggregate: {n: count(*), total: sum(v)}
sink: {format: parquet, path: ./out}
"""


def write(archive: Path) -> None:
    """Run the job, with a JVM that writes the archive when it ends."""
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "numbers").mkdir()
        (folder / "numbers" / "1.json").write_text("".join(f"{json.dumps({'k': n % 7, 'v': n})}\n" for n in range(100)))
        (folder / "job.yaml").write_text(JOB)
        options = {"SPARK_SUBMIT_OPTS": f'-XX:ArchiveClassesAtExit="{partial}"'}
        code, output, errors = finished("run", folder / "job.yaml", "--until-idle", environment=options)
    if code != 0:
        sys.exit(f"the job that loads Spark's classes has failed\n{output}\n{errors}")
    if partial.exists():
        partial.rename(archive)
    else:
        sys.stderr.write("this Java writes no archive of classes, so the tests go without\n")


def main(file: str, *command: str) -> int:
    """Write the archive while the command runs. Return the command's exit code."""
    with subprocess.Popen(command) if command else nullcontext() as beside:
        if not Path(file).exists():
            write(Path(file).absolute())
    return beside.returncode if beside else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
