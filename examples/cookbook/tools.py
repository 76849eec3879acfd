"""Tools: the model calls, the program runs them, the model answers. Errors are given back as answers."""

import json
import sys

import lamina

STOCK = {"apples": 3, "pears": 0}


def stock(fruit):
    return {"fruit": fruit, "left": STOCK[fruit]}


TOOLS = {"stock": stock}
SCHEMAS = [{"type": "function", "function": {
    "name": "stock",
    "description": "How much of a fruit is left",
    "parameters": {"type": "object", "properties": {"fruit": {"enum": ["apples", "pears", "plums"]}},
                   "required": ["fruit"], "additionalProperties": False},
}}]  # fmt: skip


def run(call):
    """What a tool says, or why it cannot: the model may try something else."""
    try:
        return TOOLS[call.name](**call.json())
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main(model=None):
    llm = lamina.LLM(model, progress=False)
    messages = [{"role": "user", "content": "Are there apples?"}]
    # The small model was taught no calls, so the first turn must call; a larger one decides with "auto".
    for choice in ("required", "none"):
        answer = llm.chat(messages, tools=SCHEMAS, tool_choice=choice, chat_format="hermes", max_tokens=60, seed=3)
        messages.append(answer.message)
        for call in answer.tool_calls:
            result = run(call)
            print("call:", call.name, call.arguments, "->", json.dumps(result))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        if not answer.tool_calls:
            break
    print("roles:", *(message["role"] for message in messages))
    print("end:", answer.finish_reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
