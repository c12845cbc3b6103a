"""Drives headless Firefox by Marionette, the protocol that it speaks itself: no geckodriver."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = ("firefox-esr", "firefox")
_TIMEOUT_S = 60
# Nothing is asked for but what a test opens, and nothing of the first run is shown.
_PREFERENCES = {
    "marionette.port": 0,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
# Privileged code in the browser itself: keeps which page asked for what.
_LISTEN = """
Services.console.reset();
window.__asked = [];
window.__observer = {observe: (channel) => {
  channel.QueryInterface(Ci.nsIHttpChannel);
  if (channel.loadInfo.browsingContextID) window.__asked.push(channel.URI.spec);
}};
Services.obs.addObserver(window.__observer, "http-on-modify-request");
"""
_ERRORS = """
const found = Services.console.getMessageArray().filter((one) => one instanceof Ci.nsIScriptError)
  .filter((one) => !one.sourceName.startsWith("resource:") && !one.sourceName.startsWith("chrome:"))
  .map((one) => `${one.sourceName}:${one.lineNumber}: ${one.errorMessage}`);
Services.console.reset();
return found;
"""
_SIZE = """
const [width, height] = arguments;
gBrowser.selectedBrowser.style.cssText = `min-width: ${width}px; max-width: ${width}px;`
  + ` min-height: ${height}px; max-height: ${height}px`;
"""
_SCHEME = "layout.css.prefers-color-scheme.content-override"


def name_of_command() -> str | None:
    """Return the command; None: it is not installed."""
    return next((name for name in _NAMES if shutil.which(name) is not None), None)


class Firefox:
    """One browser with one window; a context manager that ends it."""

    def __init__(self, folder: Path) -> None:
        """folder: where its profile goes."""
        folder.mkdir(exist_ok=True)
        lines = (
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in _PREFERENCES.items()
        )
        (folder / "user.js").write_text("".join(lines))
        command = name_of_command()
        assert command is not None
        arguments = (
            "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile"
        )  # fmt: skip
        self._process = subprocess.Popen(
            [command, *arguments, str(folder)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._number, self._rest = 0, b""
        try:
            port = self._port(folder / "MarionetteActivePort")
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
            self._message()
            self._ask("WebDriver:NewSession")
            self._privileged(_LISTEN)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _port(self, written: Path) -> int:
        """Wait until it listens, and says where."""
        until = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < until and self._process.poll() is None:
            if written.exists() and (text := written.read_text()).strip().isdigit():
                return int(text)
            time.sleep(0.02)
        raise AssertionError("Firefox did not start")

    def __enter__(self) -> Firefox:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _message(self) -> Any:  # noqa: ANN401
        """Read one message: its length, a colon, JSON."""
        while b":" not in self._rest:
            self._rest += self._received()
        length, _, self._rest = self._rest.partition(b":")
        while len(self._rest) < int(length):
            self._rest += self._received()
        text, self._rest = self._rest[: int(length)], self._rest[int(length) :]
        return json.loads(text)

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 16)
        assert data, "Firefox is gone"
        return data

    def _ask(self, command: str, **parameters: object) -> Any:  # noqa: ANN401
        self._number += 1
        text = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, number, error, answer = self._message()
        assert number == self._number
        assert error is None, error
        return answer["value"] if set(answer or ()) == {"value"} else answer

    def _privileged(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        """Run the body of a function in the browser itself."""
        self._ask("Marionette:SetContext", value="chrome")
        try:
            return self._run("Script", script, arguments)
        finally:
            self._ask("Marionette:SetContext", value="content")

    def _run(self, kind: str, script: str, arguments: tuple[object, ...]) -> Any:  # noqa: ANN401
        return self._ask(f"WebDriver:Execute{kind}", script=script, args=list(arguments))

    def open(self, page: Path) -> None:
        """Go to a file."""
        self.visit(page.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Go to a page."""
        self._ask("WebDriver:Navigate", url=url)

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        """Run the body of a function in the page; returns what that returns."""
        return self._run("Script", script, arguments)

    def run_until(self, script: str) -> Any:  # noqa: ANN401
        """Run the body of a function that calls its last argument when it is done."""
        return self._run("AsyncScript", script, ())

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the page, and light or dark."""
        self._privileged(_SIZE, width, height)
        self._privileged(f"Services.prefs.setIntPref('{_SCHEME}', {0 if dark else 1})")

    def allow_scripts(self, *, allowed: bool) -> None:
        """Let pages run scripts of their own, or not."""
        self._privileged("Services.prefs.setBoolPref('javascript.enabled', arguments[0])", allowed)

    def errors(self) -> list[str]:
        """Return errors and warnings of pages since the last call."""
        found: list[str] = self._privileged(_ERRORS)
        return found

    def requests(self) -> list[str]:
        """Return the URLs that pages asked a server for since the last call."""
        found: list[str] = self._privileged("return window.__asked.splice(0)")
        return found
