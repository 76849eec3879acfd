"""Every model family against logits of transformers, through the tool that outsiders run too."""

import os
import re
import subprocess
import sys

import pytest

FAMILIES = """
    bloom-alibi cohere2 deepseek-v2 deepseek-v3 falcon-mqa gemma2 gemma3 glm4 glm4-moe gpt-neox gpt-oss gpt2 granite
    granite-moe llama llama-linear-rope llama-yarn llama3-rope llama4-text mamba2 mistral-swa mixtral mpt-alibi olmo2
    olmo3 opt phi2 phi3 phi3-longrope qwen2 qwen2-moe qwen3 qwen3-moe qwen3-next qwen3_5-text smollm3 stablelm starcoder2
""".split()


@pytest.fixture(scope="module")
def verdicts(shared):
    """The tool's line for each family."""
    tool, folder = shared / "tools" / "check_golden.py", shared / "golden"
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    out = subprocess.run([sys.executable, tool, folder], capture_output=True, text=True, env=env).stdout
    lines = re.findall(r"^(ok|FAIL) +(\S+): (.*)$", out, re.MULTILINE)
    assert lines, out
    return {name: (verdict, rest) for verdict, name, rest in lines}


def test_all_families_are_named(verdicts):
    assert sorted(verdicts) == FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_and_greedy_text(verdicts, name):
    """Logits within 1e-4 of the reference, the same greedy continuation but for ties: the tool's own limits."""
    verdict, rest = verdicts[name]
    assert verdict == "ok", rest
