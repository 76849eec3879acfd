"""From a folder of texts to objects: the form is enforced, and what was cut is known."""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import lamina


@dataclass
class Order:
    item: str
    count: int
    urgent: bool


LETTERS = {
    "a.txt": "Please send two red lamps, as soon as you can.",
    "b.txt": "We would like ten chairs. There is no hurry.",
    "c.txt": "One table, today if possible!",
}


def main(model=None):
    llm = lamina.LLM(model, progress=False)
    # A dataclass or a pydantic model is a schema; the grammar is compiled once for all requests.
    grammar = lamina.Grammar.from_json_schema(Order, whitespace="compact")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in LETTERS.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        files = sorted(Path(folder).glob("*.txt"))
        prompts = [f"Letter: {file.read_text(encoding='utf-8')}\nOrder as JSON: " for file in files]
        # One batch: all files are read side by side.
        answers = llm.generate(prompts, grammar=grammar, max_tokens=64, seed=1)
    for file, answer in zip(files, answers):
        # False: max_tokens ended it within the object. It is a beginning of one, and no object.
        if answer.complete:
            print(file.name, Order(**json.loads(answer.text)))
        else:
            print(file.name, "was cut:", answer.text[:40])
    print("whole:", sum(bool(answer.complete) for answer in answers), "of", len(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
