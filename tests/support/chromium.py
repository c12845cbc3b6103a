"""Drives headless Chromium by the WebDriver protocol, with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM, DRIVER = "chromium", "chromedriver"
_TIMEOUT_S = 60
_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
# What a page of Chromium itself asks for while it starts.
_OWN = ("chrome://", "chrome-untrusted://", "data:", "devtools://")
_MOST_STARTS = 5
_READY = "started successfully on port "


def _started_driver() -> tuple[subprocess.Popen[str], str]:
    """Return a driver that listens, and its port.

    It takes a port that is free for IPv4, and ends where somebody else has it for IPv6.
    """
    said = ""
    for _ in range(_MOST_STARTS):
        driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert driver.stdout is not None
        for line in driver.stdout:
            said += line
            if _READY in line:
                return driver, line.rpartition(_READY)[2].strip().rstrip(".")
        with driver:
            driver.kill()
    raise AssertionError(f"chromedriver did not start: {said}")


class Chromium:
    """One browser with one window; a context manager that ends it."""

    def __init__(self, folder: Path) -> None:
        """folder: where its profile goes."""
        self._driver, port = _started_driver()
        self._url = f"http://127.0.0.1:{port}"
        options = {
            "binary": shutil.which(CHROMIUM),
            "args": [*_ARGUMENTS, f"--user-data-dir={folder}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        try:
            made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self._driver.kill()
            raise
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._ask("DELETE", self._session)
        finally:
            self._driver.kill()
            self._driver.wait()
            if self._driver.stdout is not None:
                self._driver.stdout.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_TIMEOUT_S) as answered:
            return json.load(answered)["value"]

    def open(self, page: Path) -> None:
        """Go to a file."""
        self.visit(page.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Go to a page."""
        self._ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        """Run the body of a function in the page; returns what that returns."""
        body = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def run_until(self, script: str) -> Any:  # noqa: ANN401
        """Run the body of a function that calls its last argument when it is done."""
        body = {"script": script, "args": []}
        return self._ask("POST", f"{self._session}/execute/async", body)

    def control(self, command: str, **parameters: object) -> Any:  # noqa: ANN401
        """Send a command of the DevTools protocol."""
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", f"{self._session}/goog/cdp/execute", body)

    def look(
        self, *, width: int, height: int = 900, dark: bool = False, medium: str = "screen"
    ) -> None:
        """Set the size of the window, light or dark, and screen or print."""
        self.control("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.control("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def allow_scripts(self, *, allowed: bool) -> None:
        """Let pages run scripts of their own, or not."""
        self.control("Emulation.setScriptExecutionDisabled", value=not allowed)

    def errors(self) -> list[str]:
        """Return what pages wrote to the console since the last call."""
        return [str(entry["message"]) for entry in self._log("browser")]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("POST", f"{self._session}/se/log", {"type": kind})
        return found

    def requests(self) -> list[str]:
        """Return the URLs that pages asked a server or the disk for since the last call."""
        said = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        asked = [one["params"] for one in said if one["method"] == "Network.requestWillBeSent"]
        urls = [one["request"]["url"] for one in asked]
        return [url for url in urls if not url.startswith(_OWN)]

    def picture(self, *, top: int = 0, height: int | None = None) -> bytes:
        """Return the page, or so many pixels of it, as PNG."""
        size = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": top, "width": size[0], "height": height or size[1] - top, "scale": 1}
        shot = self.control("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])
