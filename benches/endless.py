#!/usr/bin/env python3
"""Perplexity of a long text in a short context: with shifts as `context_shift` makes them, and with whole windows.

    python benches/endless.py TEXT MODEL... [--tokens 20000] [--context 256] [--sinks 4] [--stride 16]

A shift keeps the first tokens of the text and the newer half of the others; every token is scored as it would be chosen.
Beside it stand windows of the same size without sinks, moved on by half of it, and by STRIDE tokens, which is what
computing each token behind a whole window gives, but for a few tokens.
"""

import argparse
import json
import math
from pathlib import Path

import lamina
import numpy as np


def shifted(llm, ids, context, sinks):
    """Mean negative log-likelihood under the engine's rule, and the number of shifts."""
    total, scored, shifts, seen, at = 0.0, 0, 0, list(ids[:1]), 1
    while at < len(ids):
        new = ids[at : at + context + 1 - len(seen)]
        rows = llm.logits(np.array([*seen, *new], np.uint32)).astype(np.float64)[len(seen) - 1 : -1]
        top = rows.max(axis=1, keepdims=True)
        sums = top[:, 0] + np.log(np.exp(rows - top).sum(axis=1))
        total += float((sums - rows[np.arange(len(new)), new]).sum())
        scored, at, seen = scored + len(new), at + len(new), [*seen, *new]
        kept = -(-(context - sinks) // 2)
        seen, shifts = [*seen[:sinks], *seen[max(len(seen) - kept, sinks) :]], shifts + 1
    return math.exp(total / scored), shifts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--sinks", type=int, default=4)
    parser.add_argument("--stride", type=int, default=16)
    args = parser.parse_args()
    for model in args.models:
        # One token more than the context is computed by `logits` at the end of each piece.
        with lamina.LLM(model, progress=False, context=args.context + 1) as llm:
            ids = llm.tokenize(args.text.read_text()[: 8 * args.tokens])[: args.tokens]
            with_shifts, shifts = shifted(llm, ids, args.context, args.sinks)
            half = llm.perplexity(ids, context=args.context, stride=args.context // 2).ppl
            whole = llm.perplexity(ids, context=args.context, stride=args.stride).ppl
        row = {"model": model.name, "tokens": len(ids), "context": args.context, "sinks": args.sinks, "shifts": shifts}
        row.update(shifted=with_shifts, windows_by_half=half, windows_by_stride=whole, over_windows=with_shifts / whole - 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
