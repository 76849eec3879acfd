"""Classes by how likely their names are: scores for every class, calibrated by a text that says nothing."""

import math
import sys

import lamina

LABELS = [" happy", " sad"]
TEXTS = ["Lily got a new red ball and smiled.", "Tom lost his toy and began to cry.", "They laughed and played all day."]


def prompt(text):
    return f"{text} So the child was"


def shares(scores):
    """Probabilities among the labels alone."""
    weights = [math.exp(score - max(scores)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def main(model=None):
    llm = lamina.LLM(model, progress=False)
    # Some words are likelier than others behind any text: what an empty one gives is taken off.
    base = [score.logprob for score in llm.score(prompt("Something happened."), LABELS)]
    # One call: all pairs run as one batch, and each context is computed once.
    contexts = [prompt(text) for text in TEXTS for _ in LABELS]
    scores = llm.score(contexts, LABELS * len(TEXTS))
    for i, text in enumerate(TEXTS):
        row = [scores[i * len(LABELS) + j].logprob - base[j] for j in range(len(LABELS))]
        share = shares(row)
        best = max(range(len(LABELS)), key=share.__getitem__)
        print(f"{LABELS[best].strip():6} {share[best]:.2f}  {text}")
    # The same as an answer that can be nothing else; logprobs come with it.
    out = llm.generate(prompt(TEXTS[0]), choice=LABELS, temperature=0, logprobs=2)
    print("chosen:", out.text.strip(), f"{out.logprobs[0].logprob:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
