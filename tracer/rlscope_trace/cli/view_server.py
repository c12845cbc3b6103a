"""Answers the page of `view` on the loopback: one browser of whoever has the token, nobody else.

Every page of every site may send requests to the loopback. A request is answered only where its
path begins with the token, its Host is ours (names that others point here are not) and no other
origin sent it. Nothing can be changed by one.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from rlscope_analysis.errors import TraceError

Answers = dict[str, tuple[str, Callable[[dict[str, str]], str]]]
"""By name: the type of what is answered, and what answers the fields of a query."""
LOOPBACK = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
# A browser opens some six, and sends what it asks at once. Where there are too many, the one that
# has been sending for the longest goes: other users can connect, too.
_MOST_CONNECTIONS, _SILENCE_S, _ROOM_S = 24, 10, 1
_MOST_FIELDS = 8


class ViewServer(ThreadingHTTPServer):
    """Listens from the moment it is made; `answers` says what there is."""

    daemon_threads = True
    block_on_close = False
    # That wait to be heard: of the five that are usual others would take all.
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        """port: 0 is any that is free. OSError where it cannot be had."""
        self.answers: Answers = {}
        self.token = secrets.token_urlsafe(24)
        self.alone = threading.Lock()
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._sending: dict[Any, None] = {}  # the oldest first
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is: whoever knows it may read the trace."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def server_bind(self) -> None:
        """Bind; unlike that of the library it asks no resolver for a name."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer in a thread, as long as there are few."""
        has_room = self._room.acquire(blocking=False)
        if not has_room and self._drop_slowest():
            has_room = self._room.acquire(timeout=_ROOM_S)
        if not has_room:
            self.shutdown_request(request)
            return
        self._sending[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer, and make room again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_sent(request)
            self._room.release()

    def has_sent(self, request: Any) -> None:  # noqa: ANN401
        """Note that a request is there as a whole, or will not come any more."""
        self._sending.pop(request, None)

    def _drop_slowest(self) -> bool:
        """End the connection that has been sending its request for the longest, if one has."""
        for request in list(self._sending)[:1]:
            self.has_sent(request)
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
            return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Say nothing of a browser that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    timeout = _SILENCE_S
    server_version, sys_version = "rlscope-trace", ""

    def do_GET(self) -> None:
        """Answer one request."""
        self.server.has_sent(self.request)
        status, kind, body = self._answer()
        data = body.encode()
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep still: the token is in every line."""

    def _answer(self) -> tuple[HTTPStatus, str, str]:
        port = self.server.server_port
        hosts = (f"{LOOPBACK}:{port}", f"localhost:{port}")
        if self.headers.get_all("Host") not in [[host] for host in hosts]:
            return HTTPStatus.FORBIDDEN, "text/plain", "not a name of this server"
        path, _, query = self.path.partition("?")
        _, token, name, *_ = [*path.split("/", 2), "", ""]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return HTTPStatus.FORBIDDEN, "text/plain", "this is not the address that was printed"
        if name and not self._is_own_page(hosts):
            return HTTPStatus.FORBIDDEN, "text/plain", "another page asked"
        if name not in self.server.answers:
            return HTTPStatus.NOT_FOUND, "text/plain", "there is nothing of that name"
        kind, answer = self.server.answers[name]
        try:
            fields = parse_qs(query, max_num_fields=_MOST_FIELDS)
            with self.server.alone:
                return HTTPStatus.OK, kind, answer({key: value[0] for key, value in fields.items()})
        except (KeyError, ValueError, OverflowError):
            return HTTPStatus.BAD_REQUEST, "text/plain", "not understood"
        except KeyboardInterrupt:
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "ended"
        except TraceError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error)

    def _is_own_page(self, hosts: tuple[str, ...]) -> bool:
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site")
        is_ours = origin is None or origin in [f"http://{host}" for host in hosts]
        return is_ours and site in (None, "same-origin", "none")
