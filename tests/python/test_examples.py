"""Every Python example runs on the model inside the package and says what it should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"

SAYS = {
    "generate": ["Once upon a time", "llama, 2.8 M parameters on cpu", r"\d+ tokens/s"],
    "stream": [r"\(ended by length\)", r"cancelled after \d\d characters"],
    "chat": ["She found a red ball in the park", r"answer: \w", r"[1-9]\d* of \d+ prompt tokens were cached"],
    "batch": ["The big brown bear", "in company and alone: True"],
    "logits": [r"logits \(\d+, 2048\) float32", "most likely", r"perplexity: \d"],
    "embeddings": [r"vectors \(3, 256\)", " 1.000", r"hidden rows after layer 1: \(\d+, 256\)"],
    "sampling": ["a seed repeats an answer: True", r"first sentence \(stop\)"],
    "lora": [r"adapters: \['random'\]", "the adapter changes the text: True"],
    "quantize": [r"as it is +Q8_0", r"Q4_K_M .* perplexity \d"],
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_example(path):
    out = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    for part in SAYS[path.stem]:
        assert re.search(part, out.stdout), f"{part} is not in:\n{out.stdout}"
