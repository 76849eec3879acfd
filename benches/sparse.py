#!/usr/bin/env python3
"""What sparse attention costs in quality: mean loss of text behind prompts, as decode rows and as rows of a prompt.

    python benches/sparse.py TEXT MODEL... [--prompt 448] [--scored 48] [--pieces 40] [--shares 0.02 0.05 0.1 0.2 0.5]

values: the tokens behind a prompt are scored as an answer, whose rows read a share of the values (`attention_sparsity`).
prefill: prompt and tokens are one prompt, whose rows attend to a share of the far blocks (`sparse_prefill`); a share of 1e-6
is one far block beside the first one and the last two.
"""

import argparse
import json
import math
from pathlib import Path

import lamina


def answered(llm, prompt, tail):
    """Loss of each token of `tail`, as an answer to `prompt` that was cut behind it."""
    state = {"tokens": list(tail), "seed": 0, "index": 0, "drawn": 0, "surprise": None}
    out = llm.generate(list(prompt), resume=state, echo=True, logprobs=0, max_tokens=0)
    return [-scored.logprob for scored in out.prompt_logprobs[len(prompt) :]]


def prompted(llm, prompt, tail):
    """The same, as the end of the prompt."""
    out = llm.generate([*prompt, *tail], echo=True, logprobs=0, max_tokens=0)
    return [-scored.logprob for scored in out.prompt_logprobs[len(prompt) :]]


def pieces(ids, args):
    """Prompts with the text behind each."""
    size = args.prompt + args.scored
    step = (len(ids) - size) // args.pieces
    starts = range(0, step * args.pieces, step)
    return [(ids[at : at + args.prompt], ids[at + args.prompt : at + size]) for at in starts]


def ways(shares):
    """What is left out, with how it is scored."""
    yield "all", None, {}, answered
    for share in shares:
        yield "values", share, {"attention_sparsity": share}, answered
    for share in [1e-6, *shares]:
        yield "prefill", share, {"sparse_prefill": share}, prompted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--prompt", type=int, default=448)
    parser.add_argument("--scored", type=int, default=48)
    parser.add_argument("--pieces", type=int, default=40)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2, 0.5])
    parser.add_argument("--kv-dtype", default="f16")
    args = parser.parse_args()
    for model in args.models:
        whole = None
        for what, share, policy, score in ways(args.shares):
            options = {"context": args.prompt + args.scored, "kv_dtype": args.kv_dtype}
            with lamina.LLM(model, progress=False, offload=lamina.Policy(**policy), **options) as llm:
                text = args.text.read_text()[: 8 * args.pieces * (args.prompt + args.scored)]
                ids = list(map(int, llm.tokenize(text)))
                losses = [loss for prompt, tail in pieces(ids, args) for loss in score(llm, prompt, tail)]
            loss = sum(losses) / len(losses)
            whole = loss if whole is None else whole
            row = {"model": model.name, "what": what, "share": share, "loss": loss, "ppl": math.exp(loss)}
            print(json.dumps({**row, "ppl_ratio": math.exp(loss - whole)}), flush=True)


if __name__ == "__main__":
    main()
