#!/usr/bin/env python3
"""Look-up of drafts in real text: tokens per second with drafts over those without, in turn, beside llama.cpp's.

    python benches/lookup.py VOCAB.gguf TEXTS [--kinds prose,table] [--gen 256] [--rounds 5] [--threads 2] [--batch 1,8] [--record FILE]

TEXTS is a folder with `wiki.test.raw` and `code.txt`. Four pairs of prompt and answer are made from them: prose, a summary
that quotes its article, code with a name changed and lines left out, and a table told as JSON. For each a model is written
(`scripted.py`) that gives just this answer, with layers of the 1B shape. What is looked up where, and what the model
accepts, is then as with a model that writes so. Sequences of a batch start at different places of the same answer.

Lamina is the installed package (`pip install lamina`); llama.cpp's part is skipped without `llama-cpp-python`. Needs `gguf`.
"""

import argparse
import json
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import record
import scripted

import lamina

try:
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
except ImportError:
    llama_cpp = None


def articles(texts):
    """Articles of the encyclopedia, without their headings."""
    text = (texts / "wiki.test.raw").read_text(encoding="utf-8")
    parts = re.split(r"\n = [^=]+ = \n", text)
    return [re.sub(r"\n = .*\n", "\n", part).strip() for part in parts if len(part) > 6000]


def sentences(text):
    return [s.strip() + "." for s in text.split(" . ") if 40 < len(s) < 300]


def prose(texts):
    text = articles(texts)[0]
    return text[:2400], text[2400:4800]


def summary(texts):
    """Half of its sentences stand in the article, half are another author's."""
    article, other = (sentences(a) for a in articles(texts)[:2])
    told = [part for own, quote in zip(other[:12], article[1::3]) for part in (own, f'It says: "{quote}"')]
    return " ".join(article[:18]) + "\n\nA summary with quotes:\n", " ".join(told)


def edit(texts):
    """The code again: its most frequent long name is another one, and every seventeenth line is gone."""
    text = (texts / "code.txt").read_text(encoding="utf-8")
    start = text.index("\n", text.index("def __init__(self") - 600)
    code = text[start : start + 2400]
    name = Counter(re.findall(r"[A-Za-z_]{5,}", code)).most_common(1)[0][0]
    lines = code.replace(name, f"my_{name}").splitlines(keepends=True)
    kept = "".join(line for i, line in enumerate(lines) if i % 17 != 16)
    return code + f"\n\n# The same with {name} renamed:\n", kept


def table(texts):
    """Rows of a table, then the same rows as JSON."""
    words = re.findall(r"[A-Za-z]{4,}", articles(texts)[0])
    rows = [(w, n, words.index(w)) for w, n in Counter(words).most_common(60)]
    lines = "".join(f"{w},{n},{first}\n" for w, n, first in rows)
    told = [{"word": w, "count": n, "first": first} for w, n, first in rows]
    return "word,count,first\n" + lines + "\nAs JSON:\n", json.dumps(told, indent=1)


KINDS = {"prose": prose, "summary": summary, "edit": edit, "table": table}


def ours(llm, prompts, count, speculate):
    """Seconds of decoding, the answers, and tokens per step."""
    outs = llm.generate(prompts, max_tokens=count, temperature=0, ignore_eos=True, speculate=speculate)
    steps = [count / (count - (out.speculation.accepted if out.speculation else 0)) for out in outs]
    return max(out.timings.decode_seconds for out in outs), [out.tokens for out in outs], statistics.mean(steps)


def measure(path, prompts, want, args, draft="ngram", method="ngram"):
    """The ratio of each round, and tokens per step. The one method is named: `suffix` would know earlier rounds' answers."""
    ratios, steps = [], []
    with lamina.LLM(path, draft=draft, threads=args.threads, progress=False) as llm:
        for round in range(args.rounds + 1):
            ways = [False, True][:: 1 if round % 2 else -1]
            seconds = {}
            for way in ways:
                speculate = {"method": method} if way else False
                seconds[way], got, per_step = ours(llm, prompts, args.gen, speculate)
                assert got == want, "the model gave another text"
            # The first round warms up.
            if round:
                ratios.append(seconds[False] / seconds[True])
                steps.append(per_step)
    return ratios, steps


def plain(path, prompt, want, args, drafts=None):
    """Tokens per second of llama.cpp, one sequence."""
    llm = llama_cpp.Llama(
        str(path), n_ctx=len(prompt) + len(want) + 32, n_threads=args.threads, n_threads_batch=args.threads,
        draft_model=drafts, flash_attn=True, verbose=False, logits_all=drafts is not None,
    )  # fmt: skip
    times = []
    for _ in range(args.rounds + 1):
        llm.reset()
        got, start = [], None
        for token in llm.generate(prompt, temp=0.0, top_k=1, reset=True):
            start = start or time.perf_counter()
            got.append(token)
            if len(got) == len(want):
                break
        assert got == want, "llama.cpp gave another text"
        times.append(time.perf_counter() - start)
    llm.close()
    return len(want) / statistics.median(times[1:])


def theirs(path, prompt, want, args):
    """Its look-up over none."""
    none = plain(path, prompt, want, args)
    drafts = LlamaPromptLookupDecoding(max_ngram_size=2, num_pred_tokens=10)
    return {"tok_s": none, "ratio": plain(path, prompt, want, args, drafts) / none}


def pair(kind, args, path):
    """Writes the model of one kind, and returns its tokens and where the answer starts."""
    prompt, answer = KINDS[kind](args.texts)
    # Apart, as a server has them: the answer's first token is the model's own.
    start, answer = scripted.tokens_of(args.vocab, prompt), scripted.tokens_of(args.vocab, answer)
    tokens = start + answer
    assert len(answer) >= args.gen + 8, f"the answer of {kind} has only {len(answer)} tokens"
    scripted.write(path, args.vocab, tokens, args.layers, args.hidden, scripted.Type[args.type])
    return tokens, len(start)


def parser(doc):
    """Options that both benchmarks of drafts have; `doc` describes the program."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab", type=Path, metavar="VOCAB.gguf")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--gen", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--type", default="Q4_K")
    parser.add_argument("--record", type=Path)
    return parser


def main():
    options = parser(__doc__)
    options.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    args = options.parse_args()
    for kind in args.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scripted.gguf"
            tokens, start = pair(kind, args, path)
            for batch in args.batch:
                places = [start + i for i in range(batch)]
                want = [tokens[at : at + args.gen] for at in places]
                ratios, steps = measure(path, [tokens[:at] for at in places], want, args)
                row = dict(kind=kind, batch=batch, ratio=statistics.median(ratios), ratios=ratios, tokens_a_step=statistics.median(steps))
                if llama_cpp and batch == 1:
                    row["llama_cpp"] = theirs(path, tokens[:start], want[0], args)
                print(json.dumps(row), flush=True)
                if args.record:
                    record.append(args.record, row, peer=record.peer())


if __name__ == "__main__":
    main()
