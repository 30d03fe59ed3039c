"""The machine of a benchmark, as far as a reader of its figures has to know it."""

import importlib.metadata
import os
import platform
import re
from pathlib import Path

import psutil

from mixedmode.cli.machine import java_fact
from mixedmode_bench.results import Machine

PACKAGES = ("mixedmode", "pyspark", "pyarrow", "numpy", "rocksdict", "duckdb", "apache-flink-libraries")


def this_machine(cores: int) -> Machine:
    """This one, of which the benchmark uses so many cores."""
    return Machine(
        cores=cores,
        memory_bytes=psutil.virtual_memory().total,
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    java = java_fact(os.environ.get("JAVA_HOME")).version
    if java is not None:
        found["java"] = java
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Its model where the system tells, else its kind."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1).strip() if match else platform.processor() or platform.machine()
