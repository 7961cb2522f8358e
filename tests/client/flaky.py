"""A proxy to a service that loses requests and answers at random."""

from __future__ import annotations

import http.client
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class _Loss(Exception):
    """A request or its answer is lost."""


@contextmanager
def flaky(url, seed, loses_request=0.15, loses_answer=0.15):
    """Forward to the service at `url`; yield the address, and a list of losses."""
    dice, lost = random.Random(seed), []
    lock = threading.Lock()

    def throw(share, what):
        with lock:
            if dice.random() < share:
                lost.append(what)
                raise _Loss

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                throw(loses_request, "request")
                answer, content = self.ask(body)
                throw(loses_answer, "answer")
            except _Loss:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if answer.headers.get(name):
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def ask(self, body):
            upstream = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("host", "connection", "accept-encoding")
            }
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            content = answer.read()
            upstream.close()
            return answer, content

        do_GET = do_POST = forward

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", lost
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
