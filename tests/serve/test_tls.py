"""A server with TLS and tokens, as other machines reach it; and what does not start."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.serve.address import CONTROL_TOKEN, READ_TOKEN, Tokens
from mixedmode.serve.app import Site
from mixedmode.serve.server import Endpoint, Server
from tests.serve.site import Client, Served, committed, served
from tests.serve.test_limits import Impatient, all_of

READ, CONTROL = "the-token-that-reads", "the-token-that-controls"


@dataclass
class Certificate:
    """The files of a certificate for 127.0.0.1, and a client that trusts it."""

    cert: Path
    key: Path
    trusting: ssl.SSLContext


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    issued.private_key_pem.write_to_path(str(key))
    for blob in issued.cert_chain_pems:
        blob.write_to_path(str(cert), append=True)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return Certificate(cert, key, trusting)


@pytest.fixture
def client(certificate: Certificate, tmp_path: Path) -> Iterator[Client]:
    tls = {"cert": certificate.cert, "key": certificate.key, "tls": certificate.trusting}
    with served(tmp_path, tokens=Tokens(READ, CONTROL), **tls) as site:  # type: ignore[arg-type]
        site.tell(committed(0))
        yield site.client


def test_a_token_reads_another_one_controls_and_without_one_nothing_of_the_job_is_told(client: Client) -> None:
    for path in ("/api/v1/job", "/api/v1/epochs", "/api/v1/events", "/metrics", "/unknown"):
        answer = client(path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert b"totals" not in answer.body
    assert client("/healthz").status == client("/").status == 200
    assert b"totals" not in client("/").body
    assert client("/api/v1/job", authorization=f"Bearer {READ}").json["name"] == "totals"
    assert client("/api/v1/job", authorization=f"Bearer {READ}x").status == 401
    assert client("/metrics", authorization=f"Bearer {CONTROL}").status == 200
    assert client("/api/v1/stop", "POST", authorization=f"Bearer {READ}").status == 403
    assert client("/api/v1/stop", "POST", authorization=f"Bearer {CONTROL}").status == 202


def test_a_client_without_tls_gets_no_answer_and_one_without_trust_refuses(client: Client) -> None:
    with pytest.raises((OSError, http.client.HTTPException)):
        Client(client.port)("/healthz")
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(client.port, ssl.create_default_context())("/healthz")


def test_the_tokens_of_the_environment_are_in_no_answer(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(READ_TOKEN, READ)
    monkeypatch.setenv(CONTROL_TOKEN, CONTROL)
    endpoint = Endpoint.of("0.0.0.0:0", cert=certificate.cert, key=certificate.key)
    with served(tmp_path, tokens=endpoint.tokens) as site:
        site.job.mark("savepoint", f"somebody wrote {READ} and {CONTROL} into a text")
        (mark,) = site.client("/api/v1/timeline", authorization=f"Bearer {READ}").json["marks"]
    reference = f"${{env:{READ_TOKEN}}}"
    assert mark["text"] == f"somebody wrote {reference} and ${{env:{CONTROL_TOKEN}}} into a text"


def test_files_that_are_no_certificate_are_refused_with_their_names(certificate: Certificate, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for cert, key in ((wrong, certificate.key), (certificate.cert, wrong), (tmp_path / "none.pem", certificate.key)):
        server = Server(Site([]), Endpoint.of("0", cert=cert, key=key, environment={}))
        with pytest.raises(InvalidJobError, match="cannot be used for TLS") as caught, server:
            pytest.fail("it started")
        assert f"certificate={cert}, key={key}" in str(caught.value)


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        server = Server(Site([]), Endpoint.of(str(site.client.port), cert=None, key=None, environment={}))
        with pytest.raises(RetryableError) as caught, server:
            pytest.fail("it started")
        assert str(caught.value).endswith(f"address=127.0.0.1:{site.client.port}, cause=Address already in use")


@pytest.mark.parametrize("is_tls", [False, True])
def test_an_answer_is_sent_as_long_as_its_client_reads(is_tls: bool, certificate: Certificate, tmp_path: Path) -> None:
    lost = threading.Event()

    class Told(Impatient):
        write_seconds = 0.7

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    def asked(site: Served) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", site.client.port), timeout=10)
        found = certificate.trusting.wrap_socket(plain, server_hostname="127.0.0.1") if is_tls else plain
        found.sendall(b"GET /api/v1/timeline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return found

    tls = {"cert": certificate.cert, "key": certificate.key, "tls": certificate.trusting} if is_tls else {}
    with served(tmp_path, protocol=Told, **tls) as site:  # type: ignore[arg-type]
        assert site.server._socket is not None
        site.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)  # the system wakes a writer earlier
        for number in range(500):
            site.job.mark("savepoint", f"{number} {'x' * 20_000}")
        with asked(site):
            assert lost.wait(5), "this client reads nothing"
        lost.clear()
        with asked(site) as slow:
            began, found = time.monotonic(), slow.recv(65536)
            while data := slow.recv(65536):
                found += data
                lost.wait(0.01 * len(data) / 65536)  # at most 16 KiB arrive at a time by TLS
        assert time.monotonic() - began > 2 * Told.write_seconds
        assert found.partition(b"\r\n\r\n")[2] == site.client("/api/v1/timeline").body


def test_connections_without_a_handshake_count_and_end(certificate: Certificate, tmp_path: Path) -> None:
    tls = {"cert": certificate.cert, "key": certificate.key, "tls": certificate.trusting}
    with served(tmp_path, protocol=Impatient, **tls) as site:  # type: ignore[arg-type]
        address = ("127.0.0.1", site.client.port)
        silent = [socket.create_connection(address, timeout=10) for _ in range(Impatient.connections_max)]
        with socket.create_connection(address, timeout=10) as one_more:
            assert all_of(one_more) == b"", "it ends at once"
        assert [all_of(connection) for connection in silent] == [b""] * len(silent), "no handshake in time"
        with socket.create_connection(address, timeout=10) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in all_of(plain)
        assert site.client("/healthz").status == 200
        for connection in silent:
            connection.close()
