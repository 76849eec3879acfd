"""Guessing ahead: which texts gain, how to see it, and that answers stay the same."""

import sys

import lamina

TEXTS = {
    # An answer that repeats its prompt is looked up in it.
    "a refrain": "The cat said hello. The dog said hello. " * 8,
    # A story that says nothing twice is not.
    "a story": "Once upon a time there was a small grey stone that",
}


def main(model=None):
    plain = lamina.LLM(model, context=512, progress=False)
    quick = lamina.LLM(model, context=512, draft="ngram", progress=False)
    for name, text in TEXTS.items():
        without = plain.generate(text, max_tokens=40, temperature=0)
        # Four in each step, whatever they cost; without `speculate` as many as pay here and now.
        guessed = quick.generate(text, max_tokens=40, temperature=0, speculate=4)
        assert guessed.tokens == without.tokens, "guesses never change an answer"
        told = guessed.speculation
        counts = f"{told.accepted} of {told.drafted} guesses were right, in {told.steps} steps" if told else "nothing was guessed"
        print(f"{name}: {counts}")
    print("the same answers: True")


if __name__ == "__main__":
    main(*sys.argv[1:])
