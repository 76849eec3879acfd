"""Many clients at once, of whom some leave and some read slowly.

The long form: `LAMINA_LOAD_CLIENTS=500 LAMINA_LOAD_ROUNDS=10 LAMINA_LOAD_PAUSE=1`.
"""

import json
import os
import random
import socket
import threading
import time
from urllib.parse import urlparse

import pytest
from serving import Live

CLIENTS = int(os.environ.get("LAMINA_LOAD_CLIENTS", "40"))
ROUNDS = int(os.environ.get("LAMINA_LOAD_ROUNDS", "3"))
# Seconds between the bytes that a slow reader takes, and how many it takes so before it reads on.
PAUSE = float(os.environ.get("LAMINA_LOAD_PAUSE", "0.05"))
SLOW_BYTES = 20
# A third leaves, a tenth reads slowly.
MANNERS = ["leaves", "stays", "stays"] * 9 + ["leaves", "reads slowly", "reads slowly"]
MANNERS[1] = "reads slowly"
LIMIT = 300
# What a round may leave behind: pages of the heap that the system has not got back yet.
GROWTH = 16 << 20


class Client(threading.Thread):
    """One request over a socket of its own."""

    def __init__(self, url, number, manner):
        super().__init__(daemon=True)
        self.address = urlparse(url)
        self.manner = manner
        self.body = {
            "prompt": f"Once upon a time there were {number % 7} girls",
            "max_tokens": 12 + number % 5,
            "temperature": 0.8,
            "seed": number % 7,
            "stream": True,
        }
        self.text, self.failure = "", None

    def run(self):
        try:
            with socket.socket() as connection:
                connection.settimeout(LIMIT)
                if self.manner == "reads slowly":
                    # The system's buffer would take the whole answer in its place.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                connection.connect((self.address.hostname, self.address.port))
                self.talk(connection)
        except Exception as failure:  # the test tells it
            self.failure = failure

    def talk(self, connection):
        data = json.dumps(self.body).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: {self.address.netloc}\r\ncontent-type: application/json\r\n"
        connection.sendall(f"{head}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data)
        if self.manner == "leaves":
            connection.settimeout(random.uniform(0.01, 2.0))
            try:
                while connection.recv(256):
                    pass
            except TimeoutError:
                pass
            return
        received = b""
        if self.manner == "reads slowly":
            for _ in range(SLOW_BYTES):
                received += connection.recv(1)
                time.sleep(PAUSE)
        while piece := connection.recv(1 << 16):
            received += piece
        self.text = self.joined(received.decode())

    def joined(self, answer):
        """The text of a whole stream."""
        assert answer.startswith("HTTP/1.1 200"), answer[:500]
        lines = [line[6:] for line in answer.splitlines() if line.startswith("data: ")]
        assert lines[-1] == "[DONE]", answer[-500:]
        chunks = [json.loads(line) for line in lines[:-1]]
        assert not any("error" in chunk for chunk in chunks), chunks
        return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="memory and open files are read from /proc")
def test_clients_that_leave_and_read_slowly_cost_nobody_anything():
    random.seed(5)
    with Live("--max-queue", CLIENTS) as server:
        alone = {}
        for number in range(35):
            client = Client(server.url, number, "stays")
            client.run()
            assert client.failure is None, client.failure
            alone[json.dumps(client.body)] = client.text
        memory = []
        files = server.files()
        for _ in range(ROUNDS):
            clients = [Client(server.url, n, MANNERS[n % len(MANNERS)]) for n in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join(LIMIT)
                assert not client.is_alive(), "a client hangs"
                assert client.failure is None, (client.manner, client.failure)
                if client.manner != "leaves":
                    assert client.text == alone[json.dumps(client.body)], "an answer depends on the others"
            all_is_given_back(server)
            memory.append(server.resident())
        # The first rounds fill what is kept for later.
        assert memory[-1] - memory[min(2, ROUNDS - 2)] <= GROWTH, memory
        assert server.files() <= files + 2
        assert server.close() == 0


def all_is_given_back(server):
    """Nothing runs, nothing waits, and no page is held, soon after the last request has ended."""
    held = 'lamina:kv_pages{'
    end = time.monotonic() + 20
    while True:
        lines = server.get("/metrics")[1].splitlines()
        left = [line for line in lines if line.startswith(held) and 'state="held"' in line]
        left = sum(float(line.rsplit(" ", 1)[1]) for line in left)
        busy = server.metric("lamina:num_requests_running") + server.metric("lamina:num_requests_waiting")
        if left == 0 and busy == 0:
            return
        assert time.monotonic() < end, (left, busy)
        time.sleep(0.1)


def test_sigterm_loses_nothing_that_was_accepted():
    with Live() as server:
        clients = [Client(server.url, n, "stays") for n in range(8)]
        for client in clients:
            client.body["max_tokens"] = 60
            client.start()
        end = time.monotonic() + 30
        while server.metric("lamina:num_requests_running") + server.metric("lamina:num_requests_waiting") < 8:
            if not any(client.is_alive() for client in clients):
                break
            assert time.monotonic() < end
        assert server.close() == 0
        for client in clients:
            client.join(60)
            assert client.failure is None, client.failure
