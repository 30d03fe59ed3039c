"""The soak: a bank runs for a long time, and its driver is killed again and again. `make soak ARGS="--minutes 20"`.

Every half a minute or so, all processes of the run get SIGKILL, wherever they are, and the next run starts at once.
Between kills it is rescaled, and savepoints are taken; after some kills, a file of the newest checkpoint is damaged, or
the job goes on from a savepoint. All the time transfers come, and a reader checks that the accounts sum up to 0 in
every published state. At the end the job runs until it is idle, and its table has to be the answer.

Exits with 1, and says what it found, if anything was not as it must be. The seed decides when what happens, though not
what the processes do meanwhile: the same seed is the same story only as far as the machine is as fast.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.faults.soak_bank import Auditor, Bank, Violation
from tests.harness import checkpoint_log
from tests.java import JAVA_OPTIONS

LOOK_SECONDS = 1.0
COMMAND_SECONDS_MAX = 120
FINISH_SECONDS_MAX = 300
MIB = 1024 * 1024


class Soak:
    """One soak: the folder, what happened so far, and how large everything was."""

    def __init__(self, folder: Path, *, seconds: float, kill_seconds: float, seed: int) -> None:
        self.bank = Bank(folder, seed)
        self.auditor = Auditor(self.bank)
        self.happened: Counter[str] = Counter()
        self._random = random.Random(seed + 1)
        self._seconds = seconds
        self._kill_seconds = kill_seconds
        self._started = time.monotonic()
        self._tick = threading.Event()
        self._savepoints: list[Path] = []
        self._largest_mib: list[float] = []  # of each run

    def run(self) -> None:
        """Raises Violation at the first thing that is not as it must be."""
        self.bank.open()
        while self._elapsed() < self._seconds:
            self._live(self._random.uniform(0.3, 1.7) * self._kill_seconds)
            self._between()
        self.bank.close()
        self._finish()
        self.bank.check_answer()

    def report(self) -> str:
        """Return a few lines on what happened."""
        events = ", ".join(f"{count} {what}" for what, count in sorted(self.happened.items()))
        memory = ", ".join(f"{size:.0f}" for size in self._largest_mib)
        return (
            f"{events}\n{self.bank.postings} postings, {self.auditor.states} published states looked at\n"
            f"largest memory of each run in MiB: {memory}\n{self._sizes()}"
        )

    def _live(self, seconds: float) -> None:
        """One run, to its kill."""
        parallelism = self._random.choice([1, 2, 2, 3, 4])
        with self._process("run", self.bank.job_file, "--set", f"parallelism={parallelism}") as process:
            end = time.monotonic() + seconds
            next_act = time.monotonic() + self._random.uniform(0.3, 0.9) * seconds
            largest = 0.0
            while time.monotonic() < end:
                self._tick.wait(LOOK_SECONDS)
                largest = max(largest, _memory_mib(process.pid))
                self.auditor.look()
                if process.poll() is not None:
                    msg = f"the run ended by itself with exit code {process.returncode}: {_errors(process)}"
                    raise Violation(msg)
                if time.monotonic() >= next_act:
                    next_act = end
                    self._act(parallelism)
            self.happened["kills"] += 1
            self._largest_mib.append(largest)
            self._say(f"kill after {seconds:.0f} s; {largest:.0f} MiB")

    def _act(self, parallelism: int) -> None:
        """Do something that a person may do while the job runs."""
        if not checkpoint_log(self.bank.checkpoints).epochs():
            return  # still in backlog
        if self._random.random() < 0.5:
            wanted = str(self._random.randrange(1, 6))
            self._command("rescale", self.bank.job_file, wanted, "--set", f"parallelism={parallelism}")
            self.happened["rescales"] += 1
            return
        place = self.bank.folder / "savepoints" / f"{self.happened['savepoints']:04}"
        self._command("savepoint", "create", self.bank.job_file, place)
        self.happened["savepoints"] += 1
        self._savepoints.append(place)
        while len(self._savepoints) > 2:
            self._command("savepoint", "dispose", self._savepoints.pop(0))

    def _between(self) -> None:
        """Do something that may happen while the job does not run."""
        chance = self._random.random()
        if chance < 0.2 and self._savepoints:
            shutil.rmtree(self.bank.checkpoints)
            self._command("savepoint", "restore", self._savepoints[-1], self.bank.job_file)
            self.happened["restores"] += 1
            self._say("restored a savepoint")
        elif chance < 0.4:
            manifests = sorted((self.bank.checkpoints / "manifests").glob("*.json"))
            if len(manifests) > 2:
                data = bytearray(manifests[-1].read_bytes())
                data[self._random.randrange(len(data))] ^= 1
                manifests[-1].write_bytes(data)
                self._savepoints.clear()  # the output may be about to get another past than theirs
                self.happened["damages"] += 1
                self._say("damaged the newest manifest")

    def _finish(self) -> None:
        """Undisturbed, to the end of the input."""
        self._say("last run, until it is idle")
        self._command("run", self.bank.job_file, "--until-idle", seconds_max=FINISH_SECONDS_MAX)
        self.auditor.look()

    def _command(self, *arguments: str | Path, seconds_max: float = COMMAND_SECONDS_MAX) -> None:
        """A command that has to succeed; the accounts are watched meanwhile."""
        with self._process(*arguments) as process:
            end = time.monotonic() + seconds_max
            while process.poll() is None and time.monotonic() < end:
                self._tick.wait(LOOK_SECONDS / 10)
            self.auditor.look()
            if process.returncode != 0:
                what = " ".join(map(str, arguments))
                msg = f"`mixedmode {what}` gave exit code {process.returncode}: {_errors(process)}"
                raise Violation(msg)

    def _process(self, *arguments: str | Path) -> "_Process":
        return _Process(arguments, self.bank.folder)

    def _say(self, what: str) -> None:
        minutes, seconds = divmod(int(self._elapsed()), 60)
        sys.stdout.write(f"{minutes:3}:{seconds:02}  {what}; {self._sizes()}\n")
        sys.stdout.flush()

    def _sizes(self) -> str:
        log = checkpoint_log(self.bank.checkpoints)
        epochs = log.epochs()
        runs = len(log.store.list("runs"))
        files = len(log.store.list())
        output = sum(1 for _ in self.bank.out.glob("part-*"))
        newest = epochs[-1] if epochs else "none"
        return f"newest epoch {newest}, {files} files in the checkpoint folder ({runs} runs), {output} files of output"

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


class _Process(subprocess.Popen[bytes]):
    """`mixedmode <arguments>` in a session of its own, of which nothing is left at the end of the block."""

    def __init__(self, arguments: Sequence[str | Path], folder: Path) -> None:
        self.error_file = (folder / "errors.txt").open("w+b")
        super().__init__(
            [sys.executable, "-m", "mixedmode", *map(str, arguments)],
            env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS, "TMPDIR": str(folder / "tmp")},
            stdout=subprocess.DEVNULL,
            stderr=self.error_file,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        """SIGKILL to all of it, and wait until it is gone."""
        members = _session(self.pid)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for member in members:  # Spark's workers are in groups of their own
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self.wait()
        psutil.wait_procs(members, timeout=COMMAND_SECONDS_MAX)
        self.error_file.close()


def _session(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader:
                found.append(process)
    return found


def _memory_mib(leader: int) -> float:
    """Resident memory of the driver, its Java and its Python workers."""
    total = 0
    for process in _session(leader):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_info().rss
    return total / MIB


def _errors(process: _Process) -> str:
    process.error_file.seek(0)
    return process.error_file.read().decode(errors="replace")[-4_000:].strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak as the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="make soak", description="Kill a running bank again and again.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kill-every", type=float, default=30.0, metavar="SECONDS", help="on average")
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if chosen.seed is None else chosen.seed
    folder = Path(tempfile.mkdtemp(prefix="mixedmode-soak-"))
    (folder / "tmp").mkdir()
    sys.stdout.write(f"soak: --seed {seed}, {chosen.minutes:g} minutes, in {folder}\n")
    soak = Soak(folder, seconds=60 * chosen.minutes, kill_seconds=chosen.kill_every, seed=seed)
    try:
        soak.run()
    except Violation as violation:
        sys.stdout.write(f"\nVIOLATION: {violation}\n\n{soak.report()}\nEverything is left as it was: {folder}\n")
        return 1
    sys.stdout.write(f"\nno violation: the table is the answer, and was at any time\n{soak.report()}\n")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
