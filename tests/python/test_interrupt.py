"""Ctrl-C ends whatever runs, at once, and the model goes on."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

CALLS = {
    "generate": "llm.generate('Once', n=32, ignore_eos=True)",
    "batch": "llm.generate(['Once'] * 32, ignore_eos=True)",
    "stream": "list(llm.stream('Once', n=32, ignore_eos=True))",
    "chat": "llm.chat([{'role': 'user', 'content': 'Hi'}], n=32, ignore_eos=True)",
    "logits": "[llm.logits([1] * 20_000) for _ in range(100)]",
    "hidden": "[llm.hidden([1] * 50_000) for _ in range(100)]",
    "embed": "llm.embed([[1] * 20_000] * 100)",
    "perplexity": "llm.perplexity([1] * 50_000, context=20_000, stride=1)",
}

SCRIPT = """
    import sys, time, lamina
    llm = lamina.LLM(sys.argv[1], context=60_000, progress=False)
    print("ready", flush=True)
    try:
        {call}
    except KeyboardInterrupt:
        # Nothing is left to compute: an idle engine answers at once, and uses no time.
        llm.generate("x", max_tokens=1)
        time.sleep(0.2)
        begin = time.process_time()
        time.sleep(0.3)
        print("interrupted", time.process_time() - begin)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way there")
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c(stories_gguf, heed_ctrl_c, call):
    script = textwrap.dedent(SCRIPT.format(call=CALLS[call]))
    process = subprocess.Popen(
        [sys.executable, "-c", script, stories_gguf],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(0.5)
    assert process.poll() is None, "the call must still run"
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    word, computing = out.split()
    assert word == "interrupted"
    assert float(computing) < 0.15
    # Signals are looked for every 50 ms, a step of this model takes less; the rest is leeway for a busy machine.
    assert time.monotonic() - begin < 10
