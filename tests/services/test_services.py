"""`mixedmode services`, as a person starts and stops it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mixedmode.errors import RetryableError
from mixedmode_services.postgres import find_binaries
from mixedmode_services.server import LOOPBACK, Server, free_port
from tests.services.fixtures import need_kafka, need_postgres, open_folder

COMMAND = [sys.executable, "-m", "mixedmode", "services", "--folder"]
ROOT = Path(__file__).parents[2]


@contextmanager
def services(folder: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The running command, and what it says is in the environment file."""
    process = subprocess.Popen([*COMMAND, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        said: list[str] = []
        while "Ctrl-C" not in (said or [""])[-1]:
            said.append(process.stdout.readline())
            assert said[-1], said
        lines = (folder / "services.env").read_text().splitlines()
        yield process, dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in lines)
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert process.returncode == 0, rest
        assert rest.endswith("stopped; data are kept\n")


def test_a_person_starts_both_stops_them_and_finds_the_data_again() -> None:
    need_kafka()
    need_postgres()
    with open_folder() as folder:
        with services(folder) as (process, found):
            children = psutil.Process(process.pid).children(recursive=True)
            assert found["KAFKA_SERVERS"].startswith(f"{LOOPBACK}:")
            admin = AdminClient({"bootstrap.servers": found["KAFKA_SERVERS"]})
            admin.create_topics([NewTopic("kept")])["kept"].result(20)
            producer = Producer({"bootstrap.servers": found["KAFKA_SERVERS"]})
            producer.produce("kept", b"7")
            assert producer.flush(20) == 0
            with psycopg.connect(found["POSTGRES_URL"]) as connection:
                assert connection.execute("SHOW fsync").fetchone() == ("on",)
                connection.execute("CREATE TABLE kept AS SELECT 7 AS a")
            second = subprocess.run([*COMMAND, str(folder)], capture_output=True, text=True, cwd=ROOT, check=False)
            assert second.returncode == 1
            assert "services already run over this folder" in second.stderr
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive
        assert not (folder / "services.env").exists()
        with services(folder) as (_, found), psycopg.connect(found["POSTGRES_URL"]) as connection:
            assert connection.execute("SELECT a FROM kept").fetchone() == (7,)
            consumer = Consumer({"bootstrap.servers": found["KAFKA_SERVERS"], "group.id": "tests"})
            assert consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=20) == (0, 1)
            consumer.close()


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from mixedmode_services.server import Server\n"
        "server = Server('a server', log=Path(sys.argv[1]), stop_signal=signal.SIGTERM)\n"
        "server.start(['sleep', '600'], lambda: True)\n"
        "print(server._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    number = int(done.stdout)
    if psutil.pid_exists(number):
        _, alive = psutil.wait_procs([psutil.Process(number)], timeout=10)
        assert not alive


def test_a_server_that_ends_while_it_starts_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    server = Server("a server", log=tmp_path / "log", stop_signal=signal.SIGTERM)
    with pytest.raises(RetryableError) as caught:
        server.start(["/bin/sh", "-c", "echo port taken; exit 3"], lambda: False)
    assert str(caught.value) == (
        "a server ended while it was starting. Its log says why: "
        f"log={tmp_path / 'log'}, exit_code=3, last lines: port taken"
    )
    assert not server.is_running


def test_a_taken_port_is_passed_over() -> None:
    import socket

    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) > port


def test_without_postgresql_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode_services.postgres._USUAL_PLACES", ())
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(RetryableError) as caught:
        find_binaries()
    assert str(caught.value) == (
        "PostgreSQL is not installed on this machine: `initdb` is neither on PATH nor in the usual folders. "
        "Install it: sudo apt-get install postgresql"
    )
