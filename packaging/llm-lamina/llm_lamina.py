"""Models of Lamina for the `llm` command."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any, AsyncIterator, Dict, Iterator, List, Optional

import lamina
import llm
import llm.parts
from pydantic import Field, create_model

BUILTIN = "builtin"
"""The model inside Lamina's package."""

_OPTIONS: Dict[str, Any] = {
    "max_tokens": (Optional[int], Field(None, description="Tokens of the answer at most")),
    "temperature": (Optional[float], Field(None, description="0 for the likeliest token each time")),
    "top_p": (Optional[float], Field(None, description="Share of the probability that tokens are drawn from")),
    "top_k": (Optional[int], Field(None, description="Likeliest tokens that tokens are drawn from")),
    "min_p": (Optional[float], Field(None, description="Least probability of a token, as a share of the likeliest one's")),
    "seed": (Optional[int], Field(None, description="Makes an answer repeatable")),
    "stop": (Optional[str], Field(None, description="A text that ends the answer")),
    "repeat_penalty": (Optional[float], Field(None, description="Makes tokens that were there less likely")),
    "logprobs": (Optional[int], Field(None, description="Likeliest tokens of each place, kept in the log")),
}
LaminaOptions: Any = create_model("LaminaOptions", __base__=llm.Options, **_OPTIONS)


def names() -> List[str]:
    """What `lamina list` has on this machine; nothing where it fails, so that other plugins go on."""
    try:
        line = [sys.executable, "-m", "lamina", "list", "--json"]
        listed = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout
        return [model["name"] for model in json.loads(listed)["models"]]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return []


@functools.lru_cache(maxsize=1)
def loaded(name: str) -> lamina.LLM:
    """The model, from its first prompt on; another one takes its place."""
    return lamina.LLM(None if name == BUILTIN else name)


@llm.hookimpl
def register_models(register: Any) -> None:
    """Each model, for code that waits and for code that awaits."""
    for name in [BUILTIN, *names()]:
        register(Lamina(name), AsyncLamina(name))


@llm.hookimpl
def register_embedding_models(register: Any) -> None:
    """Each model; its vectors are pooled as its makers do."""
    for name in [BUILTIN, *names()]:
        register(LaminaEmbeddings(name))


class _Shared:
    """What both forms of a model share."""

    can_stream = True
    supports_schema = True
    supports_tools = True
    needs_key = None
    Options = LaminaOptions

    def __init__(self, name: str) -> None:
        self.name, self.model_id = name, f"lamina/{name}"

    def __str__(self) -> str:
        return f"Lamina: {self.model_id}"

    def _asked(self, prompt: Any) -> Dict[str, Any]:
        """The conversation and its options, as `LLM.chat` takes them."""
        options = {name: value for name, value in prompt.options.model_dump().items() if value is not None}
        if prompt.schema:
            form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": prompt.schema}}
            options["response_format"] = form
        if prompt.tools:
            options["tools"] = [_tool(tool) for tool in prompt.tools]
        return {"messages": [turn for message in prompt.messages for turn in _turns(message)], **options}


def _turns(message: Any) -> Iterator[Dict[str, Any]]:
    """A message as chat templates know it: each result of a tool is one of its own."""
    results = [part for part in message.parts if isinstance(part, llm.parts.ToolResultPart)]
    for part in results:
        yield {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.name, "content": part.output}
    text = "".join(part.text for part in message.parts if isinstance(part, llm.parts.TextPart))
    calls = [
        {"id": part.tool_call_id, "type": "function",
         "function": {"name": part.name, "arguments": json.dumps(part.arguments)}}
        for part in message.parts if isinstance(part, llm.parts.ToolCallPart)
    ]  # fmt: skip
    if text or calls or not results:
        yield {"role": message.role, "content": text, **({"tool_calls": calls} if calls else {})}


def _tool(tool: Any) -> Dict[str, Any]:
    shape = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema or {"type": "object"}}
    return {"type": "function", "function": shape}


class _Taken:
    """Pieces on their way into a response."""

    def __init__(self, response: Any) -> None:
        self.response, self.count = response, 0
        self.calls: Dict[int, Dict[str, Any]] = {}
        self.logprobs: List[Dict[str, Any]] = []

    def text(self, piece: Any) -> str:
        """What a piece adds to the text; the rest is kept."""
        self.count += piece.token is not None
        if piece.top_logprobs is not None:
            self.logprobs.append({"token": piece.token, "logprob": piece.logprob, "top": piece.top_logprobs})
        for delta in piece.tool_calls:
            call = self.calls.setdefault(delta.index, {"id": None, "name": "", "arguments": ""})
            call["id"], call["name"] = delta.id or call["id"], delta.name or call["name"]
            call["arguments"] += delta.arguments or ""
        return piece.text

    def end(self) -> None:
        """Calls of tools, counts, and what was asked for of the tokens."""
        for call in self.calls.values():
            arguments = json.loads(call["arguments"] or "{}")
            self.response.add_tool_call(llm.ToolCall(name=call["name"], arguments=arguments, tool_call_id=call["id"]))
        self.response.set_usage(output=self.count)
        if self.logprobs:
            self.response.response_json = {"logprobs": self.logprobs}


class Lamina(_Shared, llm.Model):
    """A model that is waited for."""

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None) -> Iterator[str]:
        """Pieces of the answer."""
        taken = _Taken(response)
        with loaded(self.name).chat(stream=True, **self._asked(prompt)) as pieces:
            for piece in pieces:
                yield taken.text(piece)
        taken.end()


class AsyncLamina(_Shared, llm.AsyncModel):
    """A model that is awaited."""

    async def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None) -> AsyncIterator[str]:
        """Pieces of the answer."""
        taken = _Taken(response)
        async with await loaded(self.name).achat(stream=True, **self._asked(prompt)) as pieces:
            async for piece in pieces:
                yield taken.text(piece)
        taken.end()


class LaminaEmbeddings(llm.EmbeddingModel):
    """Vectors of a model."""

    batch_size = 32

    def __init__(self, name: str) -> None:
        self.name, self.model_id = name, f"lamina/{name}"

    def embed_batch(self, items: Any) -> Iterator[List[float]]:
        """A vector of length 1 for each text."""
        for row in loaded(self.name).embed([item if isinstance(item, str) else item.decode() for item in items]):
            yield [float(x) for x in row]
