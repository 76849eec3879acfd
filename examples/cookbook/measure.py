"""What a smaller type costs and gains: perplexity, speed and the answers themselves."""

import sys
import time

import lamina

TEXT = (
    "Once upon a time there was a little girl named Lily. She loved to play outside in the park. One day she saw a big "
    "red ball. She wanted to play with it, but it was too high. Her mom said, I can help you. They were very happy. "
) * 3


def main(model=None):
    answers = {}
    for dtype in ("auto", "q4_k"):
        with lamina.LLM(model, dtype=dtype, context=512, progress=False) as llm:
            loss = llm.perplexity(TEXT, context=128, stride=64)
            began = time.perf_counter()
            out = llm.generate("Once upon a time", max_tokens=32, temperature=0, ignore_eos=True)
            seconds = time.perf_counter() - began
            answers[dtype] = out.tokens
            megabytes = llm.info.bytes_per_token / 1e6
            print(f"{dtype:5} perplexity {loss.ppl:.2f} ± {loss.stderr:.2f}  {32 / seconds:6.0f} tokens/s  {megabytes:.1f} MB a token")
    same = sum(a == b for a, b in zip(answers["auto"], answers["q4_k"]))
    print(f"q4_k: {same} of 32 tokens are those of the file's own type")


if __name__ == "__main__":
    main(*sys.argv[1:])
