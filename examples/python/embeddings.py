"""Texts as vectors, and which of them are alike: embeddings.py [MODEL]"""

import sys

import lamina

TEXTS = ["The dog ran in the park.", "A cat and a dog played in the garden.", "Mom made a cake with sugar and milk."]

with lamina.LLM(*sys.argv[1:2]) as llm:
    vectors = llm.embed(TEXTS)  # float32, [texts, hidden], each of length 1
    alike = vectors @ vectors.T
    print("vectors", vectors.shape)
    for text, row in zip(TEXTS, alike):
        print(" ".join(f"{value:6.3f}" for value in row), text)

    # Rows of every position, after any layer.
    print("hidden rows after layer 1:", llm.hidden(TEXTS[0], layer=1).shape)
