"""A conversation, written by a template: chat.py [MODEL]"""

import sys

import lamina

# Chat models bring a template of their own; the small model inside the package was never taught one, so that it
# continues a story that the turns tell. Leave `chat_template` out for a chat model.
TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}" if len(sys.argv) < 2 else None

messages = [
    {"role": "system", "content": "Once upon a time there was a girl named Lily."},
    {"role": "user", "content": "She found a red ball in the park."},
]

with lamina.LLM(*sys.argv[1:2]) as llm:
    print("prompt:", repr(llm.apply_chat_template(messages, chat_template=TEMPLATE)))
    answer = llm.chat(messages, chat_template=TEMPLATE, max_tokens=32, temperature=0)
    print("answer:", answer.text.strip())

    # The next turn: what was computed for the turns before is found in the cache.
    messages += [answer.message, {"role": "user", "content": "Then her mom came."}]
    answer = llm.chat(messages, chat_template=TEMPLATE, max_tokens=32, temperature=0)
    print("answer:", answer.text.strip())
    print(f"{answer.usage.cached_tokens} of {answer.usage.prompt_tokens} prompt tokens were cached")
