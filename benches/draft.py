#!/usr/bin/env python3
"""Draft models that are right with a set probability: tokens per second with drafts over those without, in turn.

    python benches/draft.py VOCAB.gguf TEXTS [--right 0.8,0.5,0] [--gen 256] [--rounds 5] [--batch 1,8]
        [--peer llama-speculative-simple] [--record FILE]

Target and draft are files that give a text of `lookup.py`, whatever they are asked (`scripted.py`): the target has the 1B
shape, the draft two layers of a quarter of the width, and at each place it says, with the set probability, the text's
token, else another one. Its steps cost what those of a real model of its size do, and so do the target's.

Lamina is the installed package. `--peer` is llama.cpp's program of that name: it runs on the same two files, beside
`llama-cpp-python` without drafts. Needs `gguf`.
"""

import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import lookup
import numpy as np
import record
import scripted


def guesses(tokens, start, right, words):
    """The script of a draft: behind `start` each token is the text's with probability `right`."""
    rng = np.random.default_rng(11)
    wrong = rng.random(len(tokens)) >= right
    wrong[:start] = False
    other = (np.array(tokens) + rng.integers(1, words - 1, len(tokens))) % words
    return np.where(wrong, other, tokens).tolist()


def theirs(files, prompt, plain, args):
    """llama.cpp with the draft over without: `plain` is its speed without, in tokens per second."""
    target, draft, text = files
    text.write_text(prompt, encoding="utf-8")
    line = [args.peer, "-m", target, "-md", draft, "-f", text, "-n", args.gen, "--temp", 0, "--top-k", 1, "-fa", "on",
            "--spec-type", "draft-simple", "-t", args.threads, "-tb", args.threads, "-c", args.context,
            "-b", args.context]  # fmt: skip
    speeds = []
    for _ in range(args.rounds):
        out = subprocess.run([str(part) for part in line], capture_output=True, text=True, check=True)
        told = out.stdout + out.stderr
        speeds.append(float(re.search(r"decoded .*speed: +([0-9.]+)", told)[1]))
    accept = float(re.search(r"accept += +([0-9.]+)", told)[1]) / 100
    return {"tok_s": plain, "ratio": statistics.median(speeds) / plain, "accepted": accept}


def main():
    options = lookup.parser(__doc__)
    options.add_argument("--right", type=lambda text: [float(n) for n in text.split(",")], default=[0.8, 0.5, 0.0])
    options.add_argument("--peer", type=Path)
    args = options.parse_args()
    kind = scripted.Type[args.type]
    with tempfile.TemporaryDirectory() as folder:
        target, draft, text = (Path(folder) / name for name in ("target.gguf", "draft.gguf", "prompt.txt"))
        tokens, start = lookup.pair("prose", args, target)
        args.context = len(tokens)
        words = scripted.words_of(args.vocab)
        peer = lookup.plain(target, tokens[:start], tokens[start : start + args.gen], args) if args.peer else None
        for right in args.right:
            script = guesses(tokens, start, right, words)
            scripted.write(draft, args.vocab, script, max(1, args.layers // 8), args.hidden // 4, kind)
            for batch in args.batch:
                places = [start + i for i in range(batch)]
                want = [tokens[at : at + args.gen] for at in places]
                prompts = [tokens[:at] for at in places]
                ratios, steps = lookup.measure(target, prompts, want, args, draft, "model")
                row = dict(right=right, batch=batch, ratio=statistics.median(ratios), ratios=ratios, tokens_a_step=statistics.median(steps))
                if peer and batch == 1:
                    row["llama_cpp"] = theirs((target, draft, text), lookup.prose(args.texts)[0], peer, args)
                print(json.dumps(row), flush=True)
                if args.record:
                    record.append(args.record, row, peer=record.peer())


if __name__ == "__main__":
    main()
