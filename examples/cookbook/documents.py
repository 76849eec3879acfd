"""Answers from documents: cut, embed, find, put in order, answer with the places that it comes from."""

import sys

import lamina
import numpy as np

DOCUMENTS = {
    "garden.txt": "The garden has roses and tulips. Roses are watered on Monday.\n\nTulips sleep in winter and need no water.",
    "kitchen.txt": "The bread is in the blue box. Honey stands beside it.\n\nThe oven is hot after ten minutes.",
    "rules.txt": "The dog may not sleep on the sofa.\n\nGuests take off their shoes at the door.",
}


def pieces(documents):
    """Paragraphs with their names: what is short is found well."""
    for name, text in documents.items():
        for number, paragraph in enumerate(text.split("\n\n"), 1):
            yield f"{name}:{number}", paragraph


def main(model=None):
    llm = lamina.LLM(model, progress=False)
    question = "When are roses watered?"
    names, texts = zip(*pieces(DOCUMENTS))

    # Vectors have length 1: a product is the cosine. With an encoder (bge, e5, gte) this step is what it was trained for.
    vectors = llm.embed(list(texts))
    near = np.argsort(-(vectors @ llm.embed(question)))[:4]

    # A reranker has `llm.rerank(question, texts)`. Any model can say how likely the question is behind a text.
    likely = llm.score([f"{texts[i]}\n" for i in near], [question] * len(near))
    best = sorted(zip(near, likely), key=lambda pair: -pair[1].logprob)[:2]
    found = [names[i] for i, _ in best]

    context = "\n".join(f"[{names[i]}] {texts[i]}" for i, _ in best)
    form = {
        "type": "object",
        "properties": {
            "answer": {"type": "string", "maxLength": 80},
            # Only places that were shown can be named.
            "sources": {"type": "array", "items": {"enum": found}, "minItems": 1, "maxItems": 2},
        },
        "required": ["answer", "sources"],
        "additionalProperties": False,
    }
    prompt = f"{context}\n\nQuestion: {question}\nAnswer as JSON: "
    out = llm.generate(prompt, json_schema=form, max_tokens=120, temperature=0)
    print("found:", *found)
    print("answer:", out.text)


if __name__ == "__main__":
    main(*sys.argv[1:])
