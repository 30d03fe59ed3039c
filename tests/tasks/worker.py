"""A process with the settings and imports of a Python worker, whose memory is measured."""

import subprocess
import sys
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of one process from /proc")

#: before other imports: as the daemon of the workers begins
_BEGIN = """
from mixedmode.spark import daemon

daemon.keep_freed_memory()
for name in daemon._OF_TASKS:
    daemon.import_module(name)
daemon.use_small_pages()
"""


def grown_bytes(script: str, *arguments: object) -> int:
    """Return what the script prints, run with these arguments."""
    command = [sys.executable, "-c", _BEGIN + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) * 1024
