"""A whole answer: generate.py [MODEL]"""

import sys

import lamina

# Without a path: the small model inside the package.
with lamina.LLM(*sys.argv[1:2]) as llm:
    out = llm.generate("Once upon a time", max_tokens=48, temperature=0.8, seed=7)
    print("Once upon a time" + out.text)
    print()
    print(f"{llm.info.architecture}, {llm.info.params / 1e6:.1f} M parameters on {llm.info.device} ({llm.info.isa})")
    print(f"{out.usage.completion_tokens} tokens, ended by {out.finish_reason}, {out.timings.decode_tokens_per_second:.0f} tokens/s")
