"""A page in a headless Chromium, over the pipe of its DevTools protocol: two file descriptors and JSON, no library.

The protocol: https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS_MAX = 30.0
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
)


@dataclass
class Page:
    """A page of the browser. `complaints`: errors and warnings of its console, and exceptions of its scripts."""

    commands: int
    answers: int
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next(_SECONDS_MAX)
            if found.get("id") == self._number:
                assert "error" not in found, (method, found)
                result: dict[str, Any] = found["result"]
                return result

    def open(self, url: str, *, width: int, height: int, is_dark: bool) -> None:
        """Open a URL in a window of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true. Each look costs a message to the browser."""
        until = time.monotonic() + _SECONDS_MAX
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < until, (condition, self.complaints, self.value("document.body.innerText"))
            self.value("new Promise((done) => setTimeout(done, 50))")

    def picture(self, file: Path) -> None:
        """Store a picture of the window as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self.answers, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        self._note(found)
        return found

    def _note(self, found: dict[str, Any]) -> None:
        given = found.get("params", {})
        match found.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(given["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(given["exceptionDetails"]))
            case "Log.entryAdded" if given["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(given["entry"]["text"])
            case "Runtime.consoleAPICalled" if given["type"] in {"error", "warning", "assert"}:
                self.complaints.append(json.dumps(given["args"]))
            case _:
                pass


@contextmanager
def chromium_page(folder: Path) -> Iterator[Page]:
    """Start a browser with an empty profile in `folder`, and return its page."""
    assert BROWSER is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    launch = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    command = ["/bin/bash", "-c", launch, BROWSER, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=log, stderr=log)
    os.close(theirs_in)
    os.close(theirs_out)
    page = Page(ours_out, ours_in)
    try:
        targets = page.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        yield page
        page.session = ""
        page.call("Browser.close")
    finally:
        os.close(ours_out)
        os.close(ours_in)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
