"""Answers taken apart: reasoning, text and tool calls, as each family of models writes them.

Examples:
    >>> lamina.chat.parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "hermes").tool_calls[0].name
    'now'
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _lamina, checks
from .types import Tool

DeltaRow = Tuple[
    Optional[str], Optional[str], Optional[int], Optional[str], Optional[str], Optional[str], Optional[bool]
]
"""A `Delta` as the binding gives it."""


@dataclass(frozen=True)
class Delta:
    """A piece of an answer. What it does not say is None."""

    content: Optional[str] = None
    """Text for the user."""
    reasoning: Optional[str] = None
    """Reasoning, without its marks."""
    index: Optional[int] = None
    """Which call the rest is about."""
    id: Optional[str] = None
    """With the name, once, when a call begins."""
    name: Optional[str] = None
    """Of the tool that is called."""
    arguments: Optional[str] = None
    """A piece of the arguments' JSON text."""
    complete: Optional[bool] = None
    """When a call is over: whether its arguments are whole."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool."""

    id: str
    """What the tool's answer names it by."""
    name: str
    """Of the tool."""
    arguments: str
    """JSON text."""
    complete: bool = True
    """False where the answer ended within the call."""

    def json(self) -> Any:
        """The arguments; raises ValueError where they are not whole."""
        return json.loads(self.arguments)


@dataclass(frozen=True)
class Message:
    """An answer, taken apart."""

    content: Optional[str] = None
    """Text for the user."""
    reasoning: Optional[str] = None
    """What the model thought before, where it did."""
    tool_calls: List[ToolCall] = field(default_factory=list)
    """Calls of tools, in their order."""

    def to_dict(self) -> Dict[str, Any]:
        """The answer as a message, to be appended to a conversation."""
        out: Dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning is not None:
            out["reasoning_content"] = self.reasoning
        if self.tool_calls:
            out["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return out


class Parser:
    """Takes an answer apart as it comes."""

    def __init__(self, format: str, tools: Optional[Sequence[Tool]] = None, thinking: bool = False) -> None:
        """Begins an answer.

        Args:
            format: a name of `formats()`.
            tools: the tools of the request, for formats that write values without quotes.
            thinking: the prompt ended within the reasoning.
        """
        listed = None if tools is None else checks.as_json("tools", list(tools))
        self._parser = _lamina.ChatParser(checks.text("format", format), listed, checks.flag("thinking", thinking))

    def push(self, text: str) -> List[Delta]:
        """What a piece of the text adds. Only what may begin a mark is held back.

        Args:
            text: the piece.
        """
        return [Delta(*row) for row in self._parser.push(checks.text("text", text))]

    def finish(self) -> List[Delta]:
        """What was held back at the end of the text."""
        return [Delta(*row) for row in self._parser.finish()]


def parse(text: str, format: str, tools: Optional[Sequence[Tool]] = None, thinking: bool = False) -> Message:
    """Takes a whole answer apart.

    Args:
        text: the answer.
        format: a name of `formats()`.
        tools: the tools of the request, for formats that write values without quotes.
        thinking: the prompt ended within the reasoning.
    """
    parser = Parser(format, tools, thinking)
    return joined([*parser.push(text), *parser.finish()])


def joined(deltas: Iterable[Delta]) -> Message:
    """The message that pieces make.

    Args:
        deltas: all pieces of an answer, in their order.
    """
    content: List[str] = []
    reasoning: List[str] = []
    calls: List[Dict[str, Any]] = []
    for delta in deltas:
        if delta.content is not None:
            content.append(delta.content)
        elif delta.reasoning is not None:
            reasoning.append(delta.reasoning)
        elif delta.name is not None:
            calls.append({"id": delta.id, "name": delta.name, "arguments": "", "complete": False})
        elif delta.index is not None and delta.arguments is not None:
            calls[delta.index]["arguments"] += delta.arguments
        elif delta.index is not None:
            calls[delta.index]["complete"] = bool(delta.complete)
    return Message("".join(content) or None, "".join(reasoning) or None, [ToolCall(**call) for call in calls])


def formats() -> List[str]:
    """Names of the formats."""
    return [name for name, _ in _lamina.chat_formats()]


def format_of(template: str) -> str:
    """The format that a template writes, by the marks in its source; "none" where it writes no known one.

    Args:
        template: Jinja source.
    """
    return _lamina.chat_format_of(checks.text("template", template))
