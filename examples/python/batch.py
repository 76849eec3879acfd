"""Several requests at once, from one thread and from many: batch.py [MODEL]"""

import sys
from concurrent.futures import ThreadPoolExecutor

import lamina

PROMPTS = ["Once upon a time", "The big brown bear", "One day, Tom", "Lily and her mom"]


def options(i):
    return {"max_tokens": 24, "temperature": 0.9, "seed": i}


with lamina.LLM(*sys.argv[1:2]) as llm:
    # A list of prompts runs as one batch.
    together = llm.generate(PROMPTS, max_tokens=24, temperature=0)
    for prompt, out in zip(PROMPTS, together):
        print(prompt + out.text.replace("\n", " "))

    # Requests of several threads share every step, each with options of its own.
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        threads = list(pool.map(lambda i: llm.generate(PROMPTS[i], **options(i)), range(len(PROMPTS))))

    # A request's answer does not depend on what else runs.
    alone = [llm.generate(prompt, **options(i)) for i, prompt in enumerate(PROMPTS)]
    same = [a.tokens for a in threads] == [a.tokens for a in alone]
    print("\nthe same tokens, in company and alone:", same)
    sys.exit(not same)
