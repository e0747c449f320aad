"""A web server on the loopback interface, and no other way out."""

import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

_FILES = ("/good", "/good/x.zip", "/truncated", "/x", "/x.gz", "/x.bz2", "/x.zip")
_DATA = os.environ.get("SKLEARN_CRT_DATA")


class _Handler(BaseHTTPRequestHandler):
    """Answers _FILES, /unannounced, /silent and /garbage; others are missing."""

    def do_GET(self):
        self.server.requests.append(self.path)
        body = self.server.body
        if self.path == "/garbage":
            self.wfile.write(b"this is no HTTP\r\n\r\n")
        elif self.path == "/silent":
            self.server.over.wait(20)
        elif self.path == "/unannounced":  # of what length it is
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
        elif self.path in _FILES:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:-5] if self.path == "/truncated" else body)
        else:
            self.send_error(404)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.body, server.requests, server.over = b"", [], Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    """Keep the tests off the user's folders; return what names others."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("SKLEARN_CRT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # before a download again

    def name(*paths):
        monkeypatch.setenv("SKLEARN_CRT_DATA", os.pathsep.join(map(str, paths)))

    return name


@pytest.fixture
def real_data(folders):
    if not _DATA:
        pytest.skip("SKLEARN_CRT_DATA names no folder with the original files")
    folders(_DATA)
