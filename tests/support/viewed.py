"""Runs `rlscope-trace view` on a trace and asks it, as a browser does."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from recording import COMMAND, DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path


class Viewed:
    """A server under way; a context manager that ends it with Ctrl-C."""

    def __init__(self, trace: Path, *options: str) -> None:
        """trace: what is shown."""
        self._process = subprocess.Popen(
            [*COMMAND, "view", str(trace), *options], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        lines = iter(self._process.stderr.readline, "")
        self.url = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
        self.parts = urlsplit(self.url)
        self.code: int | None = None
        self.said = ""

    def __enter__(self) -> Viewed:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self.said = self._process.communicate(timeout=DEADLINE_S)[1]
        finally:
            self._process.kill()
        self.code = self._process.returncode

    def ask(
        self, name: str, *, path: str | None = None, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text of what is behind a name of the page."""
        link = http.client.HTTPConnection(str(self.parts.hostname), self.parts.port, timeout=30)
        try:
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            link.putrequest(method, path or self.parts.path + name, skip_host="Host" in named)
            for key, value in named.items():
                link.putheader(key, value)
            link.endheaders()
            answer = link.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            link.close()

    def data(self, name: str, **fields: object) -> Any:  # noqa: ANN401
        """Return what is answered to fields of a query."""
        status, _, text = self.ask(f"{name}?{urlencode(fields)}")
        assert status == 200, text
        return json.loads(text)
