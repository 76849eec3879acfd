"""How tokens are chosen: sampling.py [MODEL]"""

import sys

import lamina

PROMPT = "One day, a boy named Tim"

# One value holds all options of a request; `help(lamina.SamplingParams)` lists them.
careful = lamina.SamplingParams(max_tokens=20, temperature=0)
lively = careful.replace(temperature=1.0, top_p=0.95, min_p=0.05, repeat_penalty=1.1)

with lamina.LLM(*sys.argv[1:2]) as llm:
    for name, params in (("careful", careful), ("lively", lively)):
        print(f"{name}: {llm.generate(PROMPT, sampling_params=params, seed=3).text!r}")

    # A seed repeats an answer; several answers to one prompt share its computation.
    again = [llm.generate(PROMPT, sampling_params=lively, seed=3).tokens for _ in range(2)]
    print("a seed repeats an answer:", again[0] == again[1])
    for other in llm.generate(PROMPT, sampling_params=lively, seed=3, n=3).completions:
        print(f"  {other.text!r}")

    # A stop string ends the answer before it; log probabilities say how sure each token was.
    out = llm.generate(PROMPT, max_tokens=200, temperature=0, stop=["."], logprobs=2)
    print(f"first sentence ({out.finish_reason}): {out.text!r}")
    for token in out.logprobs[:3]:
        print(f"  {llm.detokenize([token.token])!r} {token.logprob:.2f}, best two {token.top}")
