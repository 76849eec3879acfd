"""Dicts of answers, in the shapes of llama-cpp-python's `llama_types`."""

from __future__ import annotations

import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ...outputs import Completion, Piece, TokenLogprob, Usage
from ...stream import Stream

Word = Callable[[int], str]
"""The text of one token."""
Scored = Tuple[int, Optional[float], Optional[Dict[int, float]]]
"""A token, its logprob, and the likeliest ones of its place; None where nothing stands before it."""


class Head(NamedTuple):
    """What all dicts of an answer begin with."""

    prefix: str
    kind: str
    model: str
    id: str
    created: int

    @classmethod
    def new(cls, prefix: str, kind: str, model: str) -> Head:
        return cls(prefix, kind, model, f"{prefix}-{uuid.uuid4()}", int(time.time()))

    def dict(self, choice: Dict[str, Any], used: Optional[Usage] = None) -> Dict[str, Any]:
        out = {"id": self.id, "object": self.kind, "created": self.created, "model": self.model, "choices": [choice]}
        return out if used is None else {**out, "usage": usage(used)}


def usage(used: Usage) -> Dict[str, int]:
    """Tokens of a request."""
    prompt, answer = used.prompt_tokens, used.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def text_choice(text: str, logprobs: Any, finish_reason: Optional[str]) -> Dict[str, Any]:
    """The one choice of a completion, or of a chunk of it."""
    return {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish_reason}


def text_logprobs(scored: List[Scored], word: Word, offset: int) -> Dict[str, Any]:
    """Logprobs of a completion; `offset` counts the characters before the first token."""
    out: Dict[str, Any] = {"tokens": [], "text_offset": [], "token_logprobs": [], "top_logprobs": []}
    for token, logprob, top in scored:
        text = word(token)
        likeliest = None if top is None else {**{word(t): log for t, log in top.items()}, text: logprob}
        row = (text, offset, logprob, likeliest)
        for name, value in zip(("tokens", "text_offset", "token_logprobs", "top_logprobs"), row):
            out[name].append(value)
        offset += len(text)
    return out


def text_chunks(
    head: Head, pieces: Iterator[Piece], word: Word, offset: int, heard: Callable[[int], Any]
) -> Iterator[Dict[str, Any]]:
    """Chunks of a completion; `heard` is told each token."""
    for piece in pieces:
        logprobs = None
        if piece.token is not None:
            heard(piece.token)
            if piece.logprob is not None:
                logprobs = text_logprobs([(piece.token, piece.logprob, piece.top_logprobs)], word, offset)
                offset += len(logprobs["tokens"][0])
        if piece.text or logprobs or piece.finish_reason:
            yield head.dict(text_choice(piece.text, logprobs, piece.finish_reason))


def chat_choice(answer: Completion, word: Word) -> Dict[str, Any]:
    """The one choice of a chat's answer."""
    message = answer.message
    if message.get("content") is None and not answer.tool_calls:
        message["content"] = ""
    logprobs = None
    if answer.logprobs is not None:
        logprobs = chat_logprobs([(one.token, one.logprob, one.top) for one in answer.logprobs], word)
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": answer.finish_reason}


def chat_logprobs(scored: List[Tuple[int, float, Dict[int, float]]], word: Word) -> Dict[str, Any]:
    """Logprobs of a chat's answer."""

    def named(token: int, logprob: float) -> Dict[str, Any]:
        return {"token": word(token), "bytes": None, "logprob": logprob}

    content = [
        {**named(token, logprob), "top_logprobs": [named(*one) for one in top.items()]} for token, logprob, top in scored
    ]
    return {"content": content, "refusal": None}


def chat_chunks(head: Head, pieces: Stream, word: Word) -> Iterator[Dict[str, Any]]:
    """Chunks of a chat's answer: its role, what it says, and why it ended."""

    def chunk(delta: Dict[str, Any], logprobs: Any = None, reason: Optional[str] = None) -> Dict[str, Any]:
        return head.dict({"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason})

    with pieces:
        yield chunk({"role": "assistant"})
        for piece in pieces:
            logprobs = None
            if piece.token is not None and piece.logprob is not None:
                logprobs = chat_logprobs([(piece.token, piece.logprob, piece.top_logprobs or {})], word)
            delta = _delta(piece)
            if delta or logprobs:
                yield chunk(delta or {"content": ""}, logprobs)
            if piece.finish_reason:
                yield chunk({}, None, piece.finish_reason)


def _delta(piece: Piece) -> Dict[str, Any]:
    delta: Dict[str, Any] = {}
    if piece.text:
        delta["content"] = piece.text
    if piece.reasoning:
        delta["reasoning_content"] = piece.reasoning
    calls: List[Dict[str, Any]] = []
    for call in piece.tool_calls:
        if call.name is None and call.arguments is None:
            continue
        named = {} if call.id is None else {"id": call.id}
        function = {"name": call.name, "arguments": call.arguments or ""}
        calls.append({"index": call.index, **named, "type": "function", "function": function})
    return {**delta, "tool_calls": calls} if calls else delta


def scored_rows(rows: List[Optional[TokenLogprob]], tokens: List[int]) -> List[Scored]:
    """Rows of a prompt's tokens, the first of which has no logprob."""
    return [(t, None, None) if row is None else (t, row.logprob, row.top) for t, row in zip(tokens, rows)]
