"""How a server begins, is told anew, and ends: each failure is one clear line and an exit code, and nothing hangs."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import PACKAGED
from serving import Live, heed_signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and files of Unix")
ASK = {"prompt": "Once", "max_tokens": 4, "temperature": 0}


def command(*arguments):
    own = os.environ.get("LAMINA_TEST_COMMAND")
    return [*([own] if own else [sys.executable, "-m", "lamina"]), "serve", *map(str, arguments)]


def refusal(*arguments):
    """The one line with which a server refuses to start."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    assert done.stderr.startswith("error: ")
    return done.stderr


def certificate(folder, name="localhost"):
    """A certificate of its own and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, was not found")
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    line += ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(list(map(str, line)), check=True, capture_output=True, timeout=60)
    return cert, key


def peer_certificate(url):
    """What a new connection is shown."""
    host, port = url.rsplit("/", 1)[1].split(":")
    return ssl.get_server_certificate((host, int(port)), timeout=20)


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_what_is_wrong_at_the_start_is_told_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal("--port", port)
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert "broken.pem" in refusal("--port", 0, "--tls-cert", broken, "--tls-key", broken)
    assert "belong together" in refusal("--port", 0, "--tls-cert", broken)
    assert "missing.keys" in refusal("--port", 0, "--api-key-file", tmp_path / "missing.keys")
    assert "missing.gguf" in refusal(tmp_path / "missing.gguf", "--port", 0)
    (tmp_path / "junk.gguf").write_bytes(b"junk" * 100)
    assert "junk.gguf" in refusal(tmp_path / "junk.gguf", "--port", 0)
    assert "none/at/all" in refusal("--host", f"unix:{tmp_path}/none/at/all")
    assert "none" in refusal("--models-dir", tmp_path / "none", "--port", 0)


def test_a_certificate_without_its_key_is_refused(tmp_path):
    (cert, _), (_, other) = certificate(tmp_path), certificate(tmp_path, "other")
    assert "localhost.pem" in refusal("--port", 0, "--tls-cert", cert, "--tls-key", other)


def test_tls_and_a_certificate_that_is_changed(tmp_path):
    cert, key = certificate(tmp_path)
    # Its own check of the start does not know the certificate.
    live = Live.__new__(Live)
    live._wait_until_ready = lambda: None
    live.__init__("--tls-cert", cert, "--tls-key", key)
    with live:
        assert live.url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))

        def ask():
            request = urllib.request.Request(live.url + "/v1/completions", json.dumps(ASK).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
                return json.load(answer)["choices"][0]["text"]

        wait_for(lambda: any("ready: " in line for line in live.log))
        text = ask()
        first = peer_certificate(live.url)
        # What is broken is told, and the old one stays.
        good = cert.read_text()
        cert.write_text("nothing")
        live.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("the old keys and certificates stay" in line for line in live.log))
        assert peer_certificate(live.url) == first and ask() == text
        cert.write_text(good)
        new = certificate(tmp_path, "localhost")
        assert new == (cert, key)
        live.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("were read again" in line for line in live.log))
        assert peer_certificate(live.url) != first
        # Plain words on this port are no request, and hurt nobody.
        host, port = live.url.rsplit("/", 1)[1].split(":")
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=20)) as plain:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                plain.request("GET", "/health")
                plain.getresponse()
        trust = ssl.create_default_context(cafile=str(cert))
        assert ask() == text
        assert live.close() == 0


def test_keys_that_are_changed(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first alice\n")
    with Live("--api-key-file", keys) as server:
        status = lambda key: server.request("/v1/models", headers={"x-api-key": key})[0]  # noqa: E731
        assert (status("first"), status("second")) == (200, 401)
        keys.write_text("second bob share=2\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: status("second") == 200)
        assert status("first") == 401
        assert not any("first" in line or "second" in line for line in server.log), "a key is in the log"


def test_a_full_disk_behind_the_log_stops_nobody():
    if not os.path.exists("/dev/full"):
        pytest.skip("/dev/full was not found")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(command("--port", port), stderr=full, preexec_fn=heed_signals)
    try:
        url = f"http://127.0.0.1:{port}"

        def answered():
            with contextlib.suppress(OSError):
                request = urllib.request.Request(url + "/v1/completions", json.dumps(ASK).encode(), {"content-type": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status == 200
            assert process.poll() is None

        wait_for(answered, 120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_model_that_vanishes_is_told_and_the_others_go_on(tmp_path):
    for name in ("one", "two"):
        shutil.copy(PACKAGED, tmp_path / f"{name}.gguf")
    with Live("--models-dir", tmp_path, "--max-models", 1) as server:
        assert server.post("/v1/completions", {"model": "one", **ASK})[0] == 200
        # The other one takes its place.
        assert server.post("/v1/completions", {"model": "two", **ASK})[0] == 200
        (tmp_path / "one.gguf").unlink()
        status, body = server.post("/v1/completions", {"model": "one", **ASK})
        assert status in (404, 500, 503), body
        assert body["error"]["message"] and str(tmp_path) not in body["error"]["message"]
        assert server.post("/v1/completions", {"model": "two", **ASK})[0] == 200
        assert server.get("/health")[0] == 200
        assert server.close() == 0


def test_what_was_killed_leaves_a_port_and_a_socket_that_can_be_taken(tmp_path):
    path = tmp_path / "socket"
    for end in (signal.SIGKILL, signal.SIGTERM):
        line = command("--host", f"unix:{path}")
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals)
        with process.stderr:
            lines = iter(process.stderr.readline, "")
            assert any(line.startswith("ready: ") for line in lines), "it did not start"
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
                connection.settimeout(60)
                connection.connect(str(path))
                connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            process.send_signal(end)
            assert process.wait(60) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
    assert not path.exists(), "the file of a socket is removed"


def test_a_second_signal_ends_at_once():
    with Live("--drain-timeout", "60s") as server:
        host, port = server.url.rsplit("/", 1)[1].split(":")
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
            # Its body never comes: something runs as long as it may.
            connection.putrequest("POST", "/v1/completions")
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", "100")
            connection.endheaders()
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: server.process.poll() is not None or not listens(host, int(port)))
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(20) == 130


def listens(host, port):
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


def test_the_program_that_started_it_is_told_the_address_and_takes_it_along():
    line = command("--port", 0, "--print-url", "--exit-with-parent")
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url + "/health", timeout=20) as answer:
            assert answer.status == 200
        # What is written to it is no reason to end.
        process.stdin.write("nothing\n" * 10)
        process.stdin.flush()
        with urllib.request.urlopen(url + "/health", timeout=20) as answer:
            assert answer.status == 200
        process.stdin.close()
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""
        assert "standard input was closed" in process.stderr.read()
