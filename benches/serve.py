#!/usr/bin/env python3
"""`lamina serve` and llama.cpp's server on the same GGUF file, in turn, in one run, under the same load.

    python benches/serve.py MODEL.gguf... [--clients 1,4,16] [--prompt 128,512,2048] [--gen 128] [--requests 4]
                            [--rounds 3] [--threads 2] [--goal ttft=5000,tbt=200] [--peer COMMAND] [--record FILE]
    python benches/serve.py MODEL.gguf --beside 8192 [--rounds 3]

The load is `lamina bench --server`: each client sends its next request when one has ended, `--requests` of them each, with
prompts of lengths by chance and random tokens that no cache holds. Both servers get the same seeds. Goodput is what keeps
the goal; ratios are taken round by round, so that what else the machine does weighs on both.

With --beside the time between the tokens of one stream is taken alone and while another client sends a prompt of that
length, and the first token of a short prompt behind it; of Lamina alone, unless a peer is named.

The peer is a server's command with `{model}`, `{port}`, `{threads}`, `{clients}` and `{context}` in it: by default
`llama-server` where it is on the path, else the one of `pip install 'llama-cpp-python[server]'`. `lamina` is the command
on the path, or `LAMINA`. Nothing else should run. Peers need a tokenizer in the file: `with_vocab.py` makes one up.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import record

COMMAND = os.environ.get("LAMINA", "lamina")
OURS = f"{shlex.quote(COMMAND)} serve {{model}} --port {{port}} --threads {{threads}} --max-running {{clients}} --context {{context}}"
# Slots share the context of this server: each gets its part.
LLAMA_SERVER = (
    "llama-server -m {model} --port {port} -t {threads} -np {clients} -c {all_contexts} -fa on --no-webui --log-disable"
)
# This one answers one request after the other; by default a new request would end the one that runs.
LLAMA_PYTHON = (
    "-m llama_cpp.server --model {model} --port {port} --n_threads {threads} --n_threads_batch {threads}"
    " --n_ctx {context} --flash_attn true --interrupt_requests false"
)
START = 300


def peer_command():
    if shutil.which("llama-server"):
        return LLAMA_SERVER
    return f"{shlex.quote(sys.executable)} {LLAMA_PYTHON}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, model, args, clients):
    """A server's address while it runs."""
    port = free_port()
    context = max(args.prompt) + args.gen + 64
    values = dict(model=shlex.quote(str(model)), port=port, threads=args.threads, clients=clients, context=context)
    line = shlex.split(command.format(**values, all_contexts=context * clients))
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process, line)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url, process, line):
    end = time.monotonic() + START
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"ended with code {process.returncode}: {shlex.join(line)}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            with urllib.request.urlopen(url + "/v1/models", timeout=5) as answer:
                if answer.status == 200 and healthy(url):
                    return
        time.sleep(0.2)
    raise SystemExit(f"not ready after {START} s: {shlex.join(line)}")


def healthy(url):
    """True once the model is loaded; servers without /health have loaded it before they listen."""
    try:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        return error.code == 404


def sent(url, prompt, tokens, seed, *more):
    """What requests with prompts of these lengths found."""
    line = [COMMAND, "bench", "--server", url, "--prompt", ",".join(map(str, prompt)), "--gen", tokens, "--seed", seed, "--json", *more]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{shlex.join(map(str, line))}: {done.stderr}")
    found = json.loads(done.stdout)
    if found["failed"]:
        print(f"{found['failed']} requests failed: {found['errors']}", file=sys.stderr)
    return found


def load(url, args, clients, seed):
    """What one load on a server found."""
    more = ["--clients", clients, "--requests", clients * args.requests, "--goal", args.goal]
    return sent(url, args.prompt, args.gen, seed, *more)


def one(url, prompt, tokens, seed):
    """What one request found."""
    return sent(url, [prompt], tokens, seed, "--clients", 1, "--requests", 1)


def figures(found):
    return {
        "goodput": found["goodput"]["completion_tok_s"],
        "tok_s": found["completion_tok_s"],
        "ttft_p99": found["ttft_ms"]["p99"],
        "tbt_p99": found["tbt_ms"]["p99"],
    }


def summary(values):
    values = [value for value in values if value is not None]
    if not values:
        return None
    return {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}


def compare(model, args, clients):
    """Both servers under the load of so many clients, in turn."""
    rounds = []
    for number in range(args.rounds):
        # Who goes first changes with each round.
        order = [("lamina", OURS), ("peer", args.peer)]
        found = {}
        for name, command in order if number % 2 == 0 else reversed(order):
            with running(command, model, args, clients) as url:
                found[name] = figures(load(url, args, clients, 1000 * clients + number))
        rounds.append(found)
    row = {"model": Path(model).name, "clients": clients, "prompt": args.prompt, "n": args.gen, "threads": args.threads, "goal": args.goal}
    for name in ("goodput", "tok_s", "ttft_p99", "tbt_p99"):
        pairs = [(r["lamina"][name], r["peer"][name]) for r in rounds]
        row[name] = {
            "lamina": summary([ours for ours, _ in pairs]),
            "peer": summary([theirs for _, theirs in pairs]),
            "ratio": summary([ours / theirs for ours, theirs in pairs if theirs]),
        }
    return row


def beside(model, args):
    """A stream alone and beside a long prompt; times in milliseconds."""
    rounds = []
    for number in range(args.rounds):
        with running(OURS, model, args, 4) as url, ThreadPoolExecutor(3) as pool:
            alone = one(url, 16, args.gen, number)
            together = pool.submit(one, url, 16, args.gen, 300 + number)
            time.sleep(0.3)
            long = pool.submit(one, url, args.beside, 1, 100 + number)
            time.sleep(0.3)
            short = pool.submit(one, url, 32, 1, 200 + number)
        rounds.append(
            {
                "p99_over_median_alone": together.result()["tbt_ms"]["p99"] / alone["tbt_ms"]["p50"],
                "short_over_long": short.result()["ttft_ms"]["p50"] / long.result()["ttft_ms"]["p50"],
            }
        )
    row = {"model": Path(model).name, "beside": args.beside, "n": args.gen, "threads": args.threads}
    return {**row, **{name: summary([r[name] for r in rounds]) for name in rounds[0]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--clients", type=numbers, default=[1, 4, 16])
    parser.add_argument("--prompt", type=numbers, default=[128, 512, 2048])
    parser.add_argument("--gen", type=int, default=128)
    parser.add_argument("--requests", type=int, default=4, help="of each client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--goal", default="ttft=5000,tbt=200")
    parser.add_argument("--peer", default=None)
    parser.add_argument("--beside", type=int, help="tokens of a prompt that another client sends")
    parser.add_argument("--record", type=Path, help="file that the rows are added to, one JSON object per line")
    args = parser.parse_args()
    args.peer = args.peer or peer_command()
    if args.beside:
        args.prompt = [args.beside]
    for model in args.models:
        rows = [beside(model, args)] if args.beside else (compare(model, args, n) for n in args.clients)
        for row in rows:
            print(json.dumps(row), flush=True)
            if args.record:
                record.append(args.record, row, peer=record.peer())


if __name__ == "__main__":
    main()
