"""An address space that ends: every call has a result or an error that can be caught, and the model lives on."""

import subprocess
import sys
import textwrap

import pytest

SETUP = """
    import resource, sys, lamina

    MB = 1 << 20
    # In steps that find the small allocations as well as the large ones.
    STEPS = [step << 16 for step in range(0, 64)] + [step * MB for step in range(4, 200, 4)]

    def used():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[0]) * resource.getpagesize()

    def limited(extra, work):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used() + extra, hard))
        try:
            return work()
        except (lamina.LaminaError, MemoryError):
            return None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
"""

REQUESTS = """
    llm = lamina.LLM(sys.argv[1], context=512, threads=2, progress=False)
    prompts = [f"Once upon a time {i}" for i in range(5)]
    ask = lambda: [a.text for a in llm.generate(prompts, n=1, max_tokens=12, temperature=0)]
    want = ask()
    long = "y" * 200_000
    works = [
        ask,
        lambda: llm.generate(prompts, n=4, max_tokens=12, seed=1),
        lambda: llm.generate(long),
        lambda: llm.generate("x", stop=["ab" * 100_000] + [str(i) for i in range(20_000)], max_tokens=2, n=16),
        lambda: llm.generate("x", dry_multiplier=0.5, dry_sequence_breakers=["y" * 200], max_tokens=2),
        lambda: llm.logits(prompts[0] * 20),
        lambda: llm.embed(prompts),
        lambda: llm.chat([{"role": "user", "content": long[:400]}], max_tokens=2),
        lambda: list(llm.stream(prompts[0], n=8, max_tokens=12)),
        lambda: llm.tokenize(long),
    ]
    results = [[limited(extra, work) is not None for extra in STEPS] for work in works]
    assert ask() == want
    print(*(sum(r) for r in results), "of", len(STEPS))
"""

LOADS = """
    def load():
        with lamina.LLM(sys.argv[1], context=512, threads=2, progress=False) as llm:
            return llm.generate("Once", max_tokens=3, temperature=0).text

    want = load()
    got = [limited(extra, load) for extra in STEPS]
    assert all(text in (None, want) for text in got) and load() == want
    print(sum(text is not None for text in got), "of", len(STEPS))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
@pytest.mark.parametrize("script", [REQUESTS, LOADS], ids=["requests", "loads"])
def test_no_limit_of_the_address_space_ends_the_process(stories_gguf, script):
    line = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(SETUP) + textwrap.dedent(script), str(stories_gguf)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
