"""A headless Chromium, controlled over its debugging pipe: opens pages, evaluates JavaScript, collects errors."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--no-first-run", "--remote-debugging-pipe"),
    *("--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-dev-shm-usage"),
]

# Chromium reads commands from descriptor 3 and writes to 4: a process in between duplicates the pipes to them.
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 100)
os.dup2(int(sys.argv[2]), 101)
os.dup2(100, 3)
os.dup2(101, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass
class Browser:
    """One tab. Commands and events are JSON texts, each ended by a zero byte (Chrome DevTools Protocol)."""

    commands: int
    answers: int
    timeout_s: float = 60.0
    errors: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()
    _session: str | None = None
    _last_id: int = 0
    _buffer: bytes = b""

    def attach(self) -> None:
        """Open a tab and subscribe to its events."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, page: Path | str, *, width: int, dark: bool = False) -> None:
        """Load a file, or the page of a URL, in a window of this width. Requests to anything else are errors."""
        # The previous page may be one that lasts: what becomes of its connections is no error of this one.
        self._navigate("about:blank")
        self.errors.clear()
        url = page if isinstance(page, str) else page.as_uri()
        self.allowed = ("file:", "data:") if isinstance(page, Path) else (url, "data:")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._navigate(url)

    def _navigate(self, url: str) -> None:
        self._send("Page.navigate", url=url)
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """The value of an expression as soon as it is true: it is evaluated whenever the page draws."""
        script = f"""new Promise((resolve, reject) => {{
            const end = performance.now() + {self.timeout_s * 1000};
            const look = () => {{
                const value = {expression};
                if (value) resolve(value);
                else if (performance.now() < end) requestAnimationFrame(look);
                else reject(new Error("not true in time"));
            }};
            look();
        }})"""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer, self.errors)
        return answer["result"].get("value")

    def press(self, key: str, *, text: str = "") -> None:
        """Press a key, "Tab" or "Enter", as a person would. text: what it types."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click at the middle of the first element of a CSS selector, as a person would."""
        script = f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }})()"""
        x, y = self.evaluate(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and wait for its response."""
        number = self._send(method, **params)
        while (message := self._receive()).get("id") != number:
            pass
        assert "error" not in message, (method, message)
        result: dict[str, Any] = message["result"]
        return result

    def _send(self, method: str, **params: object) -> int:
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        return self._last_id

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + self.timeout_s
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.answers, 1 << 16) if ready else b""
            assert data, "the browser did not respond"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._collect_errors(message)
        return message

    def _collect_errors(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.errors.append(params["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(str(params["args"]))
            case "Page.javascriptDialogOpening":
                self.errors.append(f"a dialog: {params['message']}")
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith(self.allowed):
                self.errors.append(f"a request to {params['request']['url']}")


@contextmanager
def browser(executable: str, profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the context."""
    inbound, commands = os.pipe()
    answers, outbound = os.pipe()
    command = [executable, *ARGUMENTS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(inbound), str(outbound), *command],
        pass_fds=(inbound, outbound),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(inbound)
    os.close(outbound)
    try:
        tab = Browser(commands, answers)
        tab.attach()
        yield tab
    finally:
        os.close(commands)  # Chromium exits when its pipe closes.
        os.close(answers)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
