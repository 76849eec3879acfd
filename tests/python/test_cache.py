"""The cache on disk and saved states, from Python."""

import json
import subprocess
import sys

import lamina
import pytest

PROMPT = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 6


def answer(llm, text=PROMPT):
    return llm.generate(text, max_tokens=8, temperature=0, logprobs=2)


def test_a_restart_finds_the_beginning_on_disk(tmp_path):
    with lamina.LLM(progress=False, cache_dir=tmp_path / "cache") as llm:
        first = answer(llm)
        assert first.usage.cached_disk_tokens == 0
    with lamina.LLM(progress=False, cache_dir=tmp_path / "cache", cache_disk=10**9) as llm:
        second = answer(llm)
        assert second.usage.cached_disk_tokens == second.usage.cached_tokens >= 96
        assert answer(llm).usage.cached_disk_tokens == 0, "it is in memory by now"
    assert (second.tokens, second.logprobs) == (first.tokens, first.logprobs)


def test_another_process_finds_it_and_the_command_lists_it(tmp_path):
    folder = tmp_path / "cache"
    program = f"import lamina\nwith lamina.LLM(progress=False, cache_dir={str(folder)!r}) as llm: llm.generate({PROMPT!r}, max_tokens=2)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)

    def command(*words):
        out = subprocess.run([sys.executable, "-m", "lamina", "cache", *words], capture_output=True, text=True, timeout=60)
        assert out.returncode == 0, out.stderr
        return json.loads(out.stdout)

    before = command("list", str(folder), "--json")
    assert before["entries"] >= 3 and before["read_again"] == 0
    with lamina.LLM(progress=False, cache_dir=folder) as llm:
        assert answer(llm).usage.cached_disk_tokens >= 96
    assert command("list", str(folder), "--json")["read_again"] >= 3
    next(folder.glob("v1/*/*.used")).write_bytes(b"LMNPAGE1 and nothing else")
    assert command("verify", str(folder), "--json")["damaged_and_removed"] == 1
    assert command("prune", str(folder), "--json")["left_bytes"] == 0


@pytest.mark.parametrize("wrong", [{"cache_dir": 7}, {"cache_dir": "/dev/null"}, {"cache_disk": -1}, {"cache_disk": "9X"}])
def test_wrong_options_are_refused(tmp_path, wrong):
    options = {"cache_dir": tmp_path, **wrong}
    with pytest.raises(lamina.InvalidRequestError):
        lamina.LLM(progress=False, **options)


def test_a_state_goes_on_in_another_model_of_the_same_file(tmp_path):
    path = tmp_path / "state"
    data = {"messages": [{"role": "user", "content": "täglich"}]}
    with lamina.LLM(progress=False) as llm:
        first = answer(llm)
        assert llm.save_state(path, PROMPT, data) == path.stat().st_size
    with lamina.LLM(progress=False) as llm:
        state = llm.load_state(path)
        assert (state.data, state.cached_tokens >= 96) == (data, True)
        assert state.tokens == llm.tokenize(PROMPT, special=True)
        second = answer(llm)
        assert second.usage.cached_tokens == first.usage.prompt_tokens // 32 * 32
    assert (second.tokens, second.logprobs) == (first.tokens, first.logprobs)
    with lamina.LLM(progress=False, kv_dtype="q8_0") as llm:
        with pytest.raises(lamina.InvalidRequestError, match="kv_dtype f16 instead of q8_0"):
            llm.load_state(path)
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(lamina.LaminaError):
            llm.load_state(path)
        with pytest.raises(lamina.InvalidRequestError, match="JSON"):
            llm.save_state(path, PROMPT, {1, 2})


def test_a_conversation_is_saved_and_goes_on(tmp_path):
    def chat(*lines):
        words = [sys.executable, "-m", "lamina", "chat", "--session", str(tmp_path / "talk"), "--temperature", "0", "-n", "12"]
        out = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True, timeout=120)
        assert out.returncode == 0, out.stderr
        return out.stderr

    chat("Tell me about a dog and a cat who lived in a house with a big garden, please.")
    assert "2 messages" in chat("And then?")
    assert "4 messages" in chat("")


@pytest.mark.parametrize("wrong", [7.5, "80%", "tape:3G", -1])
def test_wrong_swaps(wrong):
    with pytest.raises(lamina.InvalidRequestError, match="kv_swap"):
        lamina.LLM(progress=False, kv_swap=wrong)


def test_plans_know_the_swap():
    swap = lamina.plan(kv_swap="ram:1MiB,disk:2MiB").swap
    assert (swap["memory_bytes"], swap["disk_bytes"]) == (2**20, 2**21) and swap["tokens"] > 0
    assert lamina.plan().swap is None
