"""A headless Chromium for tests, driven through the DevTools protocol.

Only what the report's tests need: open a file at some size and colour scheme, evaluate a script,
take a screenshot; what the page logs, throws and requests is kept for the test to look at.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-port=0", "--disable-dev-shm-usage"),
)
START_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 300
"""For a browser that hangs. On a busy machine it takes half a minute to start."""


def installed() -> str | None:
    """Path of a Chromium, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@dataclass
class Browser:
    """One tab. What the page did wrong is in ``errors``, what it asked for in ``requests``."""

    loop: asyncio.AbstractEventLoop
    socket: WebSocketClientConnection
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _number: int = 0

    def open(self, path: Path, *, width: int, height: int = 900, dark: bool = False,
             phone: bool = False) -> None:  # fmt: skip
        """Load a file and wait until its charts are there."""
        # What the page before still had to say is not of this one.
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank' && document.readyState === 'complete'")
        self.errors.clear()
        self.requests.clear()
        self.resize(width, height, phone=phone)
        self.scheme(dark=dark)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until(
            f"location.href === {json.dumps(path.resolve().as_uri())}"
            " && document.readyState === 'complete' && (!document.querySelector('.plot')"
            " || document.documentElement.dataset.drawn === 'yes')"
        )
        self.settle()

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"it does not become true: {condition}\n{self.errors}")
            time.sleep(0.05)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def scheme(self, *, dark: bool) -> None:
        """What prefers-color-scheme says."""
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def settle(self) -> None:
        """Wait for two frames, so that what was asked for is painted."""
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, *, clicks: int = 1) -> None:
        """mousePressed, mouseMoved or mouseReleased, with the left button, in CSS pixels."""
        self.call(
            "Input.dispatchMouseEvent",
            type=kind, x=x, y=y, button="left", buttons=1, clickCount=clicks,
        )  # fmt: skip

    def screenshot(self, path: Path, *, full: bool = True) -> Path:
        """A picture of the window, or of all of the page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=full, **self._clip(full))
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        return self.loop.run_until_complete(self._call(method, parameters))

    def _clip(self, full: bool) -> dict[str, Any]:
        if not full:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return {"clip": clip}

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        await self.socket.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while True:
            text = await asyncio.wait_for(self.socket.read_message(), ANSWER_SECONDS_MAX)
            if text is None:
                raise ConnectionError("the browser went away")
            message = json.loads(text)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in parameters["args"]])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium with one empty tab, gone at the end."""
    program = installed()
    assert program is not None, "no Chromium is installed"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        loop = asyncio.new_event_loop()
        try:
            address = _tab(_port(Path(profile), process))
            tab = Browser(loop, loop.run_until_complete(_connected(address)))
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.call(f"{domain}.enable")
            yield tab
            tab.socket.close()
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait(10)
            loop.close()


async def _connected(address: str) -> WebSocketClientConnection:
    return await websocket_connect(address, max_message_size=256 * 1024**2)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and (text := file.read_text()).count("\n"):
            return int(text.splitlines()[0])
        time.sleep(0.05)
    raise TimeoutError("Chromium did not start")


def _tab(port: int) -> str:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            tabs = json.load(answer)
        for tab in tabs:
            if tab["type"] == "page":
                return str(tab["webSocketDebuggerUrl"])
        time.sleep(0.05)  # It answers before it has a tab.
    raise TimeoutError("Chromium opens no tab")
