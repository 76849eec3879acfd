"""Long chats: what was computed is found again, in memory, on disk and in a file; what to do when a context is full."""

import sys
import tempfile
from pathlib import Path

import lamina


def main(model=None):
    with tempfile.TemporaryDirectory() as folder:
        story = "Once upon a time there was a little girl named Lily. She liked to play in the park. " * 8
        with lamina.LLM(model, context=512, cache_dir=folder, progress=False) as llm:
            first = llm.generate(story, max_tokens=8, temperature=0)
            again = llm.generate(story + first.text + " Then", max_tokens=8, temperature=0)
            print(f"second turn: {again.usage.cached_tokens} of {again.usage.prompt_tokens} tokens were there")
            # A conversation as a file, with whatever the program wants beside it.
            saved = Path(folder, "lily.state")
            size = llm.save_state(saved, story + first.text, data={"turns": 1})
            print(f"saved: {size // 1024} KiB")
            # Full? The first 32 tokens and the newer half of the others stay, and the answer goes on.
            endless = llm.generate(story * 2, max_tokens=220, context_shift=32, temperature=0, ignore_eos=True)
            print(f"shifted: {endless.timings.context_shifts} times, {endless.usage.completion_tokens} tokens")

        # Another process, or the same after a restart.
        with lamina.LLM(model, context=512, cache_dir=folder, progress=False) as llm:
            later = llm.generate(story, max_tokens=8, temperature=0)
            print(f"after a restart: {later.usage.cached_disk_tokens} tokens came from disk, the same: {later.tokens == first.tokens}")
            state = llm.load_state(saved)
            print(f"loaded: {state.cached_tokens} of {len(state.tokens)} tokens, turns {state.data['turns']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
