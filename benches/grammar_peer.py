#!/usr/bin/env python3
"""Decoding under a JSON schema over decoding without, in Lamina and in llama.cpp, in turn, on the same file.

    python benches/grammar_peer.py MODEL.gguf [--gen 64] [--rounds 5] [--threads 2] [--record FILE]

The model needs a tokenizer (`with_vocab.py` makes one up). Both sample at temperature 1 with top-k 40, as both do by
default. Lamina is the installed package; the peer is `pip install llama-cpp-python`.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import llama_cpp
import record

import lamina

SCHEMA = {
    "type": "array",
    "minItems": 500,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    },
}
PROMPT = "the of and to in a is that"


def ours(llm, count, schema, seed):
    out = llm.generate(PROMPT, max_tokens=count, seed=seed, temperature=1.0, json_schema=schema, ignore_eos=schema is None)
    return (len(out.tokens) - 1) / out.timings.decode_seconds


def theirs(llm, count, grammar, seed):
    tokens = llm.tokenize(PROMPT.encode())
    llm.reset()
    llm.set_seed(seed)
    if grammar is not None:
        grammar.reset() if hasattr(grammar, "reset") else None
    got, start = 0, None
    for _ in llm.generate(tokens, temp=1.0, top_k=40, top_p=0.95, min_p=0.05, grammar=grammar, reset=True):
        start = start or time.perf_counter()
        got += 1
        if got == count:
            break
    return (got - 1) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--gen", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    peer = llama_cpp.Llama(
        str(args.model), n_ctx=1024, n_threads=args.threads, n_threads_batch=args.threads, flash_attn=True, verbose=False
    )
    speeds = {name: [] for name in ("lamina free", "lamina schema", "llama.cpp free", "llama.cpp schema")}
    with lamina.LLM(args.model, threads=args.threads, context=1024, progress=False) as llm:
        for round in range(args.rounds + 1):
            grammar = llama_cpp.LlamaGrammar.from_json_schema(json.dumps(SCHEMA), verbose=False)
            now = {
                "lamina free": ours(llm, args.gen, None, round),
                "llama.cpp free": theirs(peer, args.gen, None, round),
                "lamina schema": ours(llm, args.gen, SCHEMA, round),
                "llama.cpp schema": theirs(peer, args.gen, grammar, round),
            }
            # The first round compiles and warms up.
            for name, speed in now.items() if round else ():
                speeds[name].append(speed)
    row = {name: statistics.median(of) for name, of in speeds.items()}
    for name in ("lamina", "llama.cpp"):
        row[f"{name} ratio"] = statistics.median(s / f for s, f in zip(speeds[f"{name} schema"], speeds[f"{name} free"]))
    print(json.dumps(row))
    if args.record:
        record.append(args.record, {"model": args.model.name, **row}, peer=record.peer())


if __name__ == "__main__":
    main()
