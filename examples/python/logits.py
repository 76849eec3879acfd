"""What the model expects at each position, and how well it predicts a text: logits.py [MODEL]"""

import sys

import lamina
import numpy as np

TEXT = "Once upon a time there was a little girl. She liked to play with her"

with lamina.LLM(*sys.argv[1:2]) as llm:
    ids = llm.tokenize(TEXT)
    logits = llm.logits(ids)  # float32, [tokens, vocab]
    print("logits", logits.shape, logits.dtype)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    for position in range(len(ids) - 1):
        best = int(probabilities[position].argmax())
        shown = [llm.detokenize([i]) for i in (ids[position + 1], best)]
        print(f"{shown[0]!r:12} had {probabilities[position, ids[position + 1]]:6.1%}; most likely {shown[1]!r:12}")
    print("next:", repr(llm.detokenize([int(logits[-1].argmax())])))
    print("perplexity:", round(llm.perplexity(TEXT).ppl, 2))
