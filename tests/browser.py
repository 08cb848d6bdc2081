"""Chromium without a window, over its DevTools protocol on a pipe: no driver, no port, no package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60  # that a slow machine may take for anything
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run --remote-debugging-pipe"
)
_COUNT_VIOLATIONS = """
window.violations = [];
const note = event => violations.push(event.violatedDirective + " " + event.blockedURI);
document.addEventListener("securitypolicyviolation", note);
"""
# The lowest contrast of a text with what is behind it, and that text; inactive buttons may be paler.
_CONTRAST = """(() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((value, i) => a * value + (1 - a) * below[i]);
  const light = colour => colour.map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = one => one === null ? [255, 255, 255] :
    over(parse(getComputedStyle(one).backgroundColor), ground(one.parentElement));
  let lowest = [21, ""];
  for (const one of document.body.querySelectorAll("*")) {
    const text = [...one.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join("");
    if (!text || one.disabled || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), own = one instanceof SVGElement ? style.fill : style.color;
    const below = ground(one), [a, b] = [light(over(parse(own), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < lowest[0]) lowest = [ratio, text];
  }
  return lowest;
})()"""
# All that Tab goes to, in the order of the page.
CONTROLS = (
    "[...document.querySelectorAll('button, select, textarea, input, summary, a[href], [tabindex=\"0\"]')]"
    ".filter(one => !one.disabled && one.checkVisibility())"
)
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowRight": (39, ""), "ArrowDown": (40, "")}


class Browser:
    """A browser of its own, with a fresh profile."""

    def __init__(self, home: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4; the shell puts the pipes there.
        script = f'exec "$0" "$@" 3</dev/fd/{commands} 4>/dev/fd/{answers}'
        self._process = subprocess.Popen(
            ["sh", "-c", script, str(CHROMIUM), *_FLAGS.split(), f"--user-data-dir={home}"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._numbers, self._rest = count(1), b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol; events that come first are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        os.write(self._commands, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            received = os.read(self._answers, 1 << 20)
            assert received, "Chromium has ended"
            self._rest += received
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, address: str, *, width: int = 1400, dark: bool = False) -> Page:
        """A page in a tab of its own, once its first result is there."""
        return Page(self, address, width=width, dark=dark)

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)


class Page:
    """A tab."""

    def __init__(self, browser: Browser, address: str, *, width: int, dark: bool) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=_COUNT_VIOLATIONS)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.look(width=width, dark=dark)
        self.call("Page.navigate", url=address)

    def look(self, *, width: int, dark: bool = False) -> None:
        """Gives the window a width in pixels, and the system a mode."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    @property
    def contrast(self) -> tuple[float, str]:
        """The lowest contrast of a text with what is behind it, by WCAG 2, and that text."""
        ratio, text = self.evaluate(_CONTRAST)
        return ratio, text

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + SECONDS
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"{expression} stays false; the page: {self.text[:500]!r}"
            time.sleep(0.03)

    @property
    def text(self) -> str:
        return str(self.evaluate("document.body?.innerText ?? ''"))

    def press(self, key: str, times: int = 1) -> None:
        """Presses a key by its name in JavaScript."""
        code, text = _KEYS[key]
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                own = {"text": text} if text and kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **own)

    def write(self, text: str) -> None:
        """Types a text where the focus is."""
        self.call("Input.insertText", text=text)

    def set_file(self, selector: str, path: Path | str) -> None:
        """Chooses a file in a field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def save_screenshot(self, path: Path) -> None:
        """Of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def requests(self) -> list[str]:
        """The addresses that it has asked for, data: aside."""
        self.evaluate("0")
        sent = [event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [address for address in sent if not address.startswith(("data:", "blob:"))]

    @property
    def problems(self) -> list[Any]:
        """Exceptions, messages of errors, and violations of the content security policy."""
        thrown = [event["params"] for event in self._events("Runtime.exceptionThrown")]
        logged = [event["params"]["entry"] for event in self._events("Log.entryAdded")]
        return [*self.evaluate("window.violations"), *thrown, *[one for one in logged if one["level"] == "error"]]

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [e for e in self._browser.events if e.get("sessionId") == self._session and e["method"] == method]

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
