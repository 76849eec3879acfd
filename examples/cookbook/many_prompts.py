"""A file of prompts: JSONL in, JSONL out, in order; what was broken off goes on where it was."""

import json
import sys
import tempfile
from pathlib import Path

import lamina

AT_ONCE = 16


def batches(lines, done):
    """The lines that have no answer yet, so many at once."""
    rest = lines[done:]
    for i in range(0, len(rest), AT_ONCE):
        yield [json.loads(line) for line in rest[i : i + AT_ONCE]]


def answer_all(llm, source, target):
    lines = source.read_text().splitlines()
    # A line that a crash has cut has no end: it is written again.
    kept = target.read_text() if target.exists() else ""
    kept = kept[: kept.rfind("\n") + 1]
    target.write_text(kept)
    with target.open("a") as out:
        for batch in batches(lines, kept.count("\n")):
            prompts = [request["prompt"] for request in batch]
            for request, answer in zip(batch, llm.generate(prompts, max_tokens=12, temperature=0)):
                row = {"id": request["id"], "text": answer.text, "finish_reason": answer.finish_reason}
                out.write(json.dumps(row) + "\n")
            out.flush()


def main(model=None):
    llm = lamina.LLM(model, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        names = ["Tom", "Lily", "Ben", "Sue", "Max", "Mia"] * 4
        rows = [{"id": i, "prompt": f"Once upon a time {name}"} for i, name in enumerate(names)]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        answer_all(llm, source, target)
        whole = target.read_text()
        # As if it had been killed in the middle of a line.
        target.write_text(whole[: len(whole) // 2])
        answer_all(llm, source, target)
        again = target.read_text()
    print(len(again.splitlines()), "answers, in order:", [json.loads(x)["id"] for x in again.splitlines()] == list(range(24)))
    print("the same after a break:", again == whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
