"""A `lamina serve` of its own for each test that asks for one."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

START = 120


class Live:
    """A running server; `with Live("--api-key", "k") as server: server.url`."""

    def __init__(self, *arguments, model=None):
        # A binary in place of the package's command, for those who have just built one.
        own = os.environ.get("LAMINA_TEST_COMMAND")
        command = [own] if own else [sys.executable, "-m", "lamina"]
        line = [*command, "serve", *([str(model)] if model else []), "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals)
        self.log, self._listening = [], threading.Event()
        self.url = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(START) or self.url is None:
            self.close()
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        self._wait_until_ready()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening on (https?://\S+)", line)
            if found and self.url is None:
                self.url = found[1].rstrip("/")
                self._listening.set()
        self._listening.set()

    def _wait_until_ready(self):
        end = time.monotonic() + START
        while self.get("/health")[0] != 200:
            assert time.monotonic() < end and self.process.poll() is None, "".join(self.log)
            time.sleep(0.05)

    def request(self, path, body=None, headers=None, method=None):
        """Status, headers and text of an answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.url + path, data, {**kind, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def get(self, path, **headers):
        """Status and text of a GET."""
        status, _, text = self.request(path, headers=headers)
        return status, text

    def post(self, path, body, **headers):
        """Status and JSON of a POST."""
        status, _, text = self.request(path, body, headers)
        return status, json.loads(text)

    def metric(self, name):
        """Sum of a metric over its labels."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if re.match(rf"{re.escape(name)}(\{{| )", line)]
        assert lines, f"there is no metric {name}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def resident(self):
        """Bytes of memory that the process has."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self):
        """Open files of the process."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self):
        """Ends the server as a service manager would, and gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join(10)
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def heed_signals():
    """What a shell starts in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def events(text):
    """Names and data of server-sent events."""
    found = []
    for frame in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("event"), fields["data"]))
    return found
