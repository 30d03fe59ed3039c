"""A Kafka broker on this machine: one node, which is its own controller (KRaft), on loopback, without passwords.

All of the broker's state is in its folder. Its ports are chosen when it is created and stay the same. So clients see
the same broker after it was stopped or killed and started again.

It keeps every record, whatever its timestamp; records are deleted only on request. Topics are not created
automatically.
"""

import os
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from signal import SIGTERM
from types import TracebackType
from typing import Self

from mixedmode.errors import RetryableError
from mixedmode.spark.jars import Jars, fetch, required_java
from mixedmode_services.server import LOOPBACK, Server, free_port

__all__ = ["KafkaBroker", "kafka_broker"]

HEAP_MB = 384
_CLUSTER_ID = "bWl4ZWRtb2RlLWthZmthLQ"  # any 16 bytes in base64; a broker refuses the data of another cluster
#: a JVM that starts fast; optimised code does not pay off for a short-lived broker
_JVM = ("-Xms64m", f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
#: ApiVersions, the request that every broker answers: length, request 18, version 0, number 1, no client name
_ARE_YOU_THERE = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_NO_TIME_MS = 2**63 - 1
_KEY_PASSWORD = "KEY_PASSWORD"

_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
logger.server.name = kafka.server
logger.server.level = INFO
appender.console.name = console
appender.console.type = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c: %m%n
"""


def kafka_broker() -> list[Path]:
    """Fetch a Kafka broker and a logging backend; 45 MB. It runs in its own process, so no dependency is left out."""
    # Kafka's modules name no logging backend; this one fits the slf4j that they name
    jars = Jars(
        ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"), for_spark=False
    )
    return fetch("kafka-broker-4.3.1", [jars])


class KafkaBroker:
    """A broker over `folder`, with its data in `data` and its log in `kafka.log` there. As a context manager it runs
    during the block. `port` is used as given; without it, a free port is chosen. `password`: that of the user
    `mixedmode`. It adds a listener at `secure_port` that requires it (SASL_SSL, mechanism PLAIN) and presents
    `certificate`.
    """

    def __init__(self, folder: Path, *, port: int | None = None, password: str | None = None) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self._controller_port = free_port()
        self._password = password
        self.secure_port = None if password is None else free_port()
        self._server = Server("Kafka", log=self.folder / "kafka.log", stop_signal=SIGTERM)

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients connect to."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self._server.log

    @property
    def certificate(self) -> Path:
        """The certificate that a client of the secure listener must trust, as PEM."""
        return self.folder / "broker.pem"

    @property
    def is_running(self) -> bool:
        """Return whether the broker's process runs."""
        return self._server.is_running

    def start(self) -> Self:
        """Start the broker over its data, if any, and return when it answers. Raises RetryableError if its jars cannot
        be loaded, or it does not start; its log says why.
        """
        jars = kafka_broker()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings_file().write_text(self._settings(), encoding="utf-8")
        self._logging_file().write_text(_LOGGING, encoding="utf-8")
        if self._password is not None and not self.certificate.exists():
            self._make_certificate(self._password)
        java = [required_java(), *_JVM, f"-Dlog4j2.configurationFile={self._logging_file()}"]
        java += ["-cp", os.pathsep.join(map(str, jars))]
        if not (self.folder / "data" / "meta.properties").exists():
            self._format([*java, "kafka.tools.StorageTool"])
        self._server.start([*java, "kafka.Kafka", str(self._settings_file())], self._answers)
        return self

    def stop(self) -> None:
        """Stop the broker; its data stay."""
        self._server.stop()

    def kill(self) -> None:
        """Send SIGKILL. Records that the broker has acknowledged are with the operating system, and so are not lost."""
        self._server.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _settings_file(self) -> Path:
        return self.folder / "server.properties"

    def _logging_file(self) -> Path:
        return self.folder / "log4j2.properties"

    def _settings(self) -> str:
        controller = f"{LOOPBACK}:{self._controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            # Kafka deletes and refuses records by their timestamps; a history's timestamps are years old
            "log.retention.ms": -1,
            "log.message.timestamp.before.max.ms": _NO_TIME_MS,
            "log.message.timestamp.after.max.ms": _NO_TIME_MS,
            # one replica and few partitions, as one node allows: groups and transactions start faster
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            # how long the controller waits for a killed broker, which delays the next start
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 300,
            "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,  # instead of 128 MB, which is too much for this heap
        }
        if self._password is not None:
            login = "org.apache.kafka.common.security.plain.PlainLoginModule"
            for name, more in {
                "listeners": f"SECURE://{LOOPBACK}:{self.secure_port}",
                "advertised.listeners": f"SECURE://{LOOPBACK}:{self.secure_port}",
                "listener.security.protocol.map": "SECURE:SASL_SSL",
            }.items():
                settings[name] = f"{settings[name]},{more}"
            settings |= {
                "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.secure.plain.sasl.jaas.config": f'{login} required user_mixedmode="{self._password}";',
                "listener.name.secure.ssl.keystore.type": "PKCS12",
                "listener.name.secure.ssl.keystore.location": self._key_file(),
                "listener.name.secure.ssl.keystore.password": self._password,
            }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _key_file(self) -> Path:
        return self.folder / "broker.p12"

    def _make_certificate(self, password: str) -> None:
        """Create a key and a self-signed certificate."""
        keytool = str(Path(required_java()).resolve().with_name("keytool"))
        store = ["-alias", "broker", "-keystore", str(self._key_file()), "-storepass:env", _KEY_PASSWORD]
        name = ["-dname", f"CN={LOOPBACK}", "-ext", f"SAN=ip:{LOOPBACK}"]
        secret = {_KEY_PASSWORD: password}
        self._run([keytool, "-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", *store, *name], secret)
        self._run([keytool, "-exportcert", "-rfc", "-file", str(self.certificate), *store], secret)

    def _format(self, tool: list[str]) -> None:
        """Format the folder for a broker, once."""
        self._run([*tool, "format", "--cluster-id", _CLUSTER_ID, "--config", str(self._settings_file())])

    def _run(self, command: list[str], secret: Mapping[str, str] | None = None) -> None:
        environment = {**os.environ, **(secret or {})}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            msg = (
                "Kafka could not make its folder. See that it can be written to, and holds nothing else. "
                f"folder={self.folder}, reason={(done.stdout + done.stderr).strip()[-500:]}"
            )
            raise RetryableError(msg)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(_ARE_YOU_THERE)
                return len(connection.recv(8)) == 8  # length, and the number of the request (4 bytes each)
        except OSError:
            return False
