"""A server on the loopback interface that sends scripted answers, for tests of the transport."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Answer:
    """One answer; without a status the connection is dropped."""

    status: int | None = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    length: int | None = None
    """The length in the headers, if it is false."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Scripted:
    def __init__(self, answers):
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.url = ""


def problem(status, slug, detail, **more):
    body = {"type": f"urn:fairtrial:problem:{slug}", "status": status, "detail": detail, **more}
    headers = more.pop("headers", {})
    return Answer(status, body, headers, "application/problem+json")


CERTIFICATES = Path(__file__).parent / "certificates"
"""A certificate for 127.0.0.1 and its key, for these tests only."""


@contextmanager
def scripted(*answers, certificate=False):
    """Serve the answers in their order; repeat the last one."""
    script = Scripted(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(content) if content else None
            script.requests.append(
                Request(
                    self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body
                )
            )
            answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if answer.status is None:
                self.close_connection = True
                return
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(answer.length or len(text.encode())))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())
            if answer.length:
                self.close_connection = True

        do_GET = do_POST = answer

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    script.url = f"http{'s' * certificate}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
