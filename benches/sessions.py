#!/usr/bin/env python3
"""Sessions as files: time and bytes to save one, to load it and to go on behind it, beside llama.cpp's files of that kind.

    python benches/sessions.py MODEL.gguf [--depth 4096,8192] [--prompt 128] [--gen 16] [--kv q8_0] [--threads 2] [--rounds 3]
                               [--record FILE]

Lamina computes a prompt, saves it, and loads it in a model that was opened anew, which shares nothing with the first. llama.cpp
(`pip install llama-cpp-python`) fills its cache in pieces that do not see each other (see peer_llama_cpp.py), writes it with
`llama_state_seq_save_file`, and reads it in a context that was made anew. Files lie in a folder of the system, and are dropped
from the page cache before they are read. Both engines in turn; nothing else should run.
"""

import argparse
import ctypes
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import record


def timed(act):
    begin = time.perf_counter()
    found = act()
    return time.perf_counter() - begin, found


def dropped(path):
    """The file's bytes after they left the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return os.path.getsize(path)


def ours(model, args, depth, path):
    import lamina

    options = dict(context=depth + args.prompt + args.gen + 64, kv_dtype=args.kv, threads=args.threads, progress=False)
    source = random.Random(depth)
    with lamina.LLM(model, **options) as llm:
        prompt = [source.randrange(100, 10_000) for _ in range(depth)]
        computed, _ = timed(lambda: llm.generate(prompt, max_tokens=1, ignore_eos=True))
        saved, _ = timed(lambda: llm.save_state(path, prompt))
        size = dropped(path)
    with lamina.LLM(model, **options) as llm:
        llm.generate(prompt[:8], max_tokens=1, ignore_eos=True)
        loaded, _ = timed(lambda: llm.load_state(path))
        token, out = timed(lambda: llm.generate(prompt, max_tokens=1, ignore_eos=True))
        assert out.usage.cached_tokens >= depth - 64, f"{out.usage.cached_tokens} of {depth} tokens were found"
        more = [source.randrange(100, 10_000) for _ in range(args.prompt)]
        speeds = llm.generate(prompt + more, max_tokens=args.gen + 1, temperature=0, ignore_eos=True).timings
    found = {"save_s": saved, "load_s": loaded, "next_token_s": token, "bytes": size, "compute_s": computed}
    return {**found, "prefill": speeds.prefill_tokens_per_second, "decode": speeds.decode_tokens_per_second}


def theirs(model, args, depth, path):
    import llama_cpp as ll

    from peer_llama_cpp import ROWS, Engine

    silent = ll.llama_log_callback(lambda *_: None)
    ll.llama_log_set(silent, ctypes.c_void_p())
    job = {"model": str(model), "batch": 1, "depth": depth, "prompt": args.prompt + args.gen, "gen": 0, "threads": args.threads, "kv": args.kv}
    source, name = random.Random(depth), str(path).encode()
    tokens = [source.randrange(100, 10_000) for _ in range(depth)]
    ids = (ctypes.c_int32 * depth)(*tokens)
    first = Engine(job, spare=ROWS)
    first.deepen(0, tokens)
    saved, written = timed(lambda: ll.llama_state_seq_save_file(first.context, name, 0, ids, depth))
    ll.llama_free(first.context)
    ll.llama_model_free(first.model)
    size = dropped(path)
    second, room = Engine(job), ctypes.c_size_t()
    second.run([(tokens[0], 0, 0)])
    second.cut(0)
    loaded, read = timed(lambda: ll.llama_state_seq_load_file(second.context, name, 0, ids, depth, ctypes.byref(room)))
    assert written and read, "llama.cpp did not write or read its file"
    token, _ = timed(lambda: second.run([(tokens[0], depth, 0)]))
    second.cut(depth)
    prefill, _ = timed(lambda: second.fill(0, tokens[: args.prompt], depth))
    decode, _ = timed(lambda: [second.run([(tokens[i], depth + args.prompt + i, 0)]) for i in range(args.gen)])
    ll.llama_free(second.context)
    ll.llama_model_free(second.model)
    found = {"save_s": saved, "load_s": loaded, "next_token_s": token, "bytes": size}
    return {**found, "prefill": args.prompt / prefill, "decode": args.gen / decode}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--depth", type=lambda text: [int(n) for n in text.split(",")], default=[4096])
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt that goes on behind what was loaded")
    parser.add_argument("--gen", type=int, default=16)
    parser.add_argument("--kv", default="q8_0")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path, help="file that the rows are added to, one JSON object per line")
    args = parser.parse_args()
    for depth in args.depth:
        found = {"lamina": [], "llama.cpp": []}
        for _ in range(args.rounds):
            for name, measure in (("llama.cpp", theirs), ("lamina", ours)):
                with tempfile.TemporaryDirectory() as folder:
                    found[name].append(measure(args.model, args, depth, Path(folder, "session")))
        of = lambda rows: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        median = {name: of(rows) for name, rows in found.items()}
        row = {"model": args.model.name, "kv": args.kv, "depth": depth, **median}
        print(json.dumps(row), flush=True)
        if args.record:
            record.append(args.record, {"threads": args.threads, **row}, peer=record.peer())


if __name__ == "__main__":
    main()
