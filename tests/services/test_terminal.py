"""Ctrl-C at a terminal ends the services, and not what started them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mixedmode_services.terminal import in_foreground

ROOT = Path(__file__).parents[2]
CTRL_C = b"\x03"
SERVICE = """
import signal, threading
from mixedmode_services.terminal import in_foreground
stop = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stop.set())
with in_foreground():
    print("ready", flush=True)
    stop.wait(60)
print("stopped", flush=True)
"""
#: as make: starts the service, and dies of a Ctrl-C that reaches it
STARTER = f"""
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
code = subprocess.call([sys.executable, "-c", {SERVICE!r}])
print("the terminal is back", flush=True)
sys.exit(code)
"""


def test_ctrl_c_at_the_terminal_reaches_the_service_alone_and_its_starter_ends_well() -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", STARTER])
    said = _read_until(terminal, b"ready")
    os.write(terminal, CTRL_C)
    said += _read_until(terminal, b"the terminal is back")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert (os.waitstatus_to_exitcode(status), b"stopped" in said) == (0, True), said


def test_without_a_terminal_nothing_changes() -> None:
    program = (
        "import os\nfrom mixedmode_services.terminal import in_foreground\nbefore = os.getpgrp()\n"
        "with in_foreground():\n    print(os.getpgrp() == before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True, start_new_session=True
    )
    assert done.stdout == "True\n"


def test_an_error_within_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError), in_foreground():
        _ = 1 / 0


def _read_until(terminal: int, text: bytes) -> bytes:
    """Return the terminal's output up to `text`; fail at its end."""
    said = b""
    while text not in said:
        try:
            more = os.read(terminal, 1024)
        except OSError:  # Linux, once nobody has the other end
            more = b""
        assert more, said
        said += more
    return said
