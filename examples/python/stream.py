"""The answer as it comes, and how to stop it: stream.py [MODEL]"""

import sys

import lamina

with lamina.LLM(*sys.argv[1:2]) as llm:
    for piece in llm.stream("The little dog", max_tokens=32, temperature=0):
        print(piece.text, end="", flush=True)
    print(f"\n(ended by {piece.finish_reason})\n")

    # Leaving the block, closing the stream or dropping it cancels the request.
    text = ""
    with llm.stream("The little cat", temperature=0, ignore_eos=True) as pieces:
        for piece in pieces:
            text += piece.text
            if len(text) > 60:
                break
    print(f"cancelled after {len(text)} characters: {text!r}")
