#!/usr/bin/env python3
"""Perplexity by Lamina and by llama.cpp on the same GGUF files and the same tokens.

    python benches/perplexity.py TEXT MODEL.gguf... [--tokens 20000] [--context 256] [--record FILE]

Both score every token but the first of each window, with an f16 cache. llama.cpp: `pip install llama-cpp-python`.
"""

import argparse
import math
from pathlib import Path

import lamina
import llama_cpp
import numpy as np
import record


def theirs(model, ids, context):
    """Mean negative log-likelihood over windows, from llama.cpp's logits."""
    llm = llama_cpp.Llama(str(model), n_ctx=context, n_batch=context, logits_all=True, flash_attn=True, verbose=False)
    total, scored = 0.0, 0
    for start in range(0, len(ids), context):
        window = ids[start : start + context]
        if len(window) < 2:
            break
        llm.reset()
        llm.eval(window)
        logits = llm.scores[: len(window) - 1].astype(np.float64)
        top = logits.max(axis=1, keepdims=True)
        sums = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        total += float((sums - logits[np.arange(len(window) - 1), window[1:]]).sum())
        scored += len(window) - 1
    return math.exp(total / scored)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    worst = 0.0
    for model in args.models:
        with lamina.LLM(model, progress=False) as llm:
            ids = llm.tokenize(args.text.read_text()[: 8 * args.tokens])[: args.tokens]
            ours = llm.perplexity(ids, context=args.context, stride=args.context).ppl
        peer = theirs(model, ids, args.context)
        worst = max(worst, abs(ours / peer - 1))
        print(f"{model.name:32} lamina {ours:10.5f}  llama.cpp {peer:10.5f}  difference {ours / peer - 1:+.4%}", flush=True)
        if args.record:
            row = {"model": model.name, "text": args.text.name, "tokens": len(ids), "context": args.context, "lamina": ours, "llama.cpp": peer}
            record.append(args.record, row, peer=record.peer())
    print(f"largest difference {worst:.4%}")


if __name__ == "__main__":
    main()
