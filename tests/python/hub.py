"""A model hub on loopback: what `huggingface_hub` and `lamina` ask for, over files in memory."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000
"""Bytes from which on files are kept as LFS keeps them: their etag is a sha256, and they come from another host."""


def etag(data):
    if len(data) >= LARGE:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """`with Hub({"model.gguf": b"..."}) as hub: hub.url`. `cut` says after how many bytes a body ends, or None."""

    def __init__(self, files, cut=lambda: None):
        self.files, self.cut, self.asked, self.user = files, cut, [], "somebody"
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self._answer()

            def do_GET(self):
                self._answer()

            def log_message(self, *_):
                pass

            def _answer(self):
                path, _, _ = self.path.partition("?")
                hub.asked.append((self.command, unquote(path), self.headers.get("Range")))
                if path.startswith("/api/"):
                    return self._json(hub.api(path))
                name = re.sub(r"^/org/model/resolve/[^/]+/|^/store/", "", unquote(path))
                data = hub.files.get(name)
                if data is None:
                    return self._head(404, {"X-Error-Code": "EntryNotFound", "Content-Length": "0"})
                facts = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
                if len(data) >= LARGE and not path.startswith("/store/"):
                    facts.update({"X-Linked-Etag": f'"{etag(data)}"', "X-Linked-Size": str(len(data))})
                    return self._head(302, {**facts, "Location": hub.store + "/store/" + name, "Content-Length": "0"})
                return self._file(data, {**facts, "ETag": f'"{etag(data)}"'})

            def _file(self, data, facts):
                status, asked = 200, re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                start, end = 0, len(data)
                if asked:
                    start, end = int(asked[1]), min(len(data), int(asked[2] or len(data) - 1) + 1)
                    facts["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
                    status = 206
                self._head(status, {**facts, "Content-Length": str(end - start)})
                cut = hub.cut() if self.command == "GET" else None
                if self.command == "GET":
                    self.wfile.write(data[start:end] if cut is None else data[start : min(end, start + cut)])
                self.close_connection = self.close_connection or cut is not None

            def _json(self, value):
                text = json.dumps(value).encode()
                self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(text))})
                if self.command == "GET":
                    self.wfile.write(text)

            def _head(self, status, headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server in self._servers:
            server.daemon_threads = True
            server.handle_error = lambda *_: None
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url, self.store = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def api(self, path):
        siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
        tree = [{"type": "file", "path": n, "size": len(d), "oid": etag(d)} for n, d in self.files.items()]
        if "/tree/" in path:
            return tree
        if path == "/api/whoami-v2":
            return {"name": self.user}
        return {"id": "org/model", "modelId": "org/model", "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 1}

    def bodies(self):
        """Requests that asked for the bytes of files."""
        return [asked for asked in self.asked if asked[0] == "GET" and not asked[1].startswith("/api/")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self._servers:
            server.shutdown()
            server.server_close()
