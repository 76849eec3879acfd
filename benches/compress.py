#!/usr/bin/env python3
"""What compressing a prompt's cache costs in quality: mean loss of the text behind it, and of a sentence that it repeats.

    python benches/compress.py TEXT MODEL... [--prompt 448] [--scored 48] [--pieces 40] [--budgets 32 64 128 256]

Text: the tokens behind a prompt are scored one after the other, with all of the prompt's cache, with what `compress`
leaves, and with the last tokens of the prompt alone (a window of the budget's size, computed without what was before).
Needle: the prompt begins with a sentence from another place of the text and ends with its first half; its second half is
scored. A window has not seen the sentence.
"""

import argparse
import json
from pathlib import Path

import lamina


def losses(llm, prompt, tail, **options):
    """Loss of each token of `tail`, as an answer to `prompt` that was cut behind it."""
    state = {"tokens": list(tail), "seed": 0, "index": 0, "drawn": 0, "surprise": None}
    out = llm.generate(list(prompt), resume=state, echo=True, logprobs=0, max_tokens=0, **options)
    return [-scored.logprob for scored in out.prompt_logprobs[len(prompt) :]]


def mean(rows):
    rows = [loss for row in rows for loss in row]
    return sum(rows) / len(rows)


def cases(ids, args):
    """Prompts with what is scored behind each: text, and sentences that come again."""
    size = args.prompt + args.scored
    starts = range(0, len(ids) - 2 * size, (len(ids) - 2 * size) // args.pieces)
    text = [(ids[at : at + args.prompt], ids[at + args.prompt : at + size]) for at in starts]
    half, needles = args.needle // 2, []
    for at in starts:
        needle, hay = ids[at : at + args.needle], ids[at + size : at + size + args.prompt - args.needle - half]
        needles.append(([*needle, *hay, *needle[:half]], needle[half:]))
    return {"text": text, "needle": needles}


def ways(args):
    """Names of what stays, with options and with how many last tokens of a prompt are given at all."""
    yield "all", {}, None
    for budget in args.budgets:
        yield f"last {budget}", {}, budget
        for method in ("snapkv", "pyramidkv"):
            yield f"{method} {budget}", {"compress": f"{method}:{budget},window={args.window}"}, None
        yield f"h2o {budget}", {"compress": f"h2o:{budget}"}, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--prompt", type=int, default=448)
    parser.add_argument("--scored", type=int, default=48)
    parser.add_argument("--needle", type=int, default=24)
    parser.add_argument("--pieces", type=int, default=40)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--budgets", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--kv-dtype", default="f16")
    args = parser.parse_args()
    for model in args.models:
        with lamina.LLM(model, progress=False, context=args.prompt + args.scored, kv_dtype=args.kv_dtype) as llm:
            ids = llm.tokenize(args.text.read_text()[: 40 * args.pieces * (args.prompt + args.scored)])
            for kind, pieces in cases(list(map(int, ids)), args).items():
                for name, options, last in ways(args):
                    rows = [losses(llm, p[-last:] if last else p, tail, **options) for p, tail in pieces]
                    row = {"model": model.name, "what": kind, "kept": name, "loss": mean(rows)}
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
