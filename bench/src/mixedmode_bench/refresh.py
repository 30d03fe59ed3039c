"""Measures each result of a folder again, by the command that it names: `mixedmode bench --refresh FOLDER`.

Each command runs in a process of its own, so no run is warm from another one. A file is replaced when its run is whole,
so an interrupted refresh leaves results of two versions, but no half one.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode_bench.document import read_document

RESULT = "result.json"
_PROGRAM = ["mixedmode", "bench"]

#: runs words of a command line, and returns its exit code
Run = Callable[[Sequence[str]], int]


def refresh(folder: Path, data: Path | None, say: Callable[[str], None], run: Run | None = None) -> None:
    """Run the command of each result file again, in the order of their names, and replace the files.

    Raise InvalidJobError if there is none, RetryableError if a run fails.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        msg = f"there is no result to measure again. Name a folder with files that --out has written. folder={folder}"
        raise InvalidJobError(msg)
    commands = {file: _words(file) for file in files}  # all are read before the first one runs
    for number, (file, words) in enumerate(commands.items(), 1):
        say(f"{number} of {len(files)}: {file.name}: {shlex.join([*_PROGRAM, *words])}")
        with TemporaryDirectory(prefix="mixedmode-refresh-") as scratch:
            options = ["--out", scratch, *([] if data is None else ["--data", str(data)])]
            code = (run or _run)([*words, *options])
            if code != 0:
                msg = (
                    "a benchmark failed, so its result file and those after it are unchanged. Look at what it printed, "
                    f"and start again. file={file}, exit_code={code}"
                )
                raise RetryableError(msg)
            file.write_bytes((Path(scratch) / RESULT).read_bytes())


def _words(file: Path) -> list[str]:
    words = shlex.split(read_document(file).command)
    if words[:2] != _PROGRAM:
        msg = f"a result file names no command of the benchmark. file={file}, command={shlex.join(words)}"
        raise InvalidJobError(msg)
    return words[2:]


def _run(words: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "mixedmode", "bench", *words], check=False).returncode
