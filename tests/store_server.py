"""A small HTTP server that stores files, as nginx with DAV does, and that can be made to fail."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class LoggedRequest(NamedTuple):
    """A request to the server."""

    method: str
    path: str
    headers: Mapping[str, str]


Fault = Callable[["Handler"], bool]  # answers a request wrongly, or returns False for a right answer


class StoreServer(ThreadingHTTPServer):
    """The stored files, the log of requests, and the fault that the next requests get."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.log: list[LoggedRequest] = []
        self.fault: Fault = lambda _handler: False
        self.over = threading.Event()  # ends handlers that hang

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take_log(self) -> list[str]:
        """Return the requests since the last call, in order."""
        log, self.log = self.log, []
        return [f"{each.method} {each.path.split('/')[1]}" for each in log]

    def handle_error(self, _request: object, _client: object) -> None:
        """Print nothing about clients that hang up."""


class Handler(BaseHTTPRequestHandler):
    """One connection to the server."""

    protocol_version = "HTTP/1.1"
    server: StoreServer
    body = b""

    def do_GET(self) -> None:
        self.server.log.append(LoggedRequest(self.command, self.path, dict(self.headers)))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.server.fault(self):
            self.usual()

    do_PUT = do_HEAD = do_GET  # noqa: N815 - a name of http.server

    def usual(self) -> None:
        """Answer as a working server does."""
        if self.command == "PUT":
            there = self.path in self.server.files
            self.server.files[self.path] = self.body
            self.answer(204 if there else 201)
        elif self.path in self.server.files:
            self.answer(200, self.server.files[self.path])
        else:
            self.answer(404, b"<html>nothing is here</html>")

    def answer(self, status: int, body: bytes = b"", **headers: str) -> bool:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)
        return True

    def hang_up(self, *, rudely: bool = False) -> bool:
        """End the connection; *rudely* with a reset."""
        self.close_connection = True
        if rudely:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        return True

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


# Faults


def answer(status: int, body: bytes = b"", **headers: str) -> Fault:
    """Give every request the same answer."""
    return lambda handler: handler.answer(status, body, **headers)


def endless(handler: Handler) -> bool:
    """Send a body without an end."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b"x" * 65536)
    return True


def reset(handler: Handler) -> bool:
    """End the connection without an answer."""
    return handler.hang_up(rudely=True)


@contextmanager
def store_server() -> Iterator[StoreServer]:
    """Run a server within the `with` block."""
    with StoreServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
