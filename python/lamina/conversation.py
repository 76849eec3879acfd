"""Conversations, and how their answers are to be written, as the binding takes them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from . import _lamina, checks
from .errors import InvalidRequestError
from .outputs import Asked, Completion, completion, taken_apart
from .types import Message, Tool


def conversation(
    messages: Sequence[Message],
    tools: Optional[Sequence[Tool]],
    template: Optional[str],
    variables: Optional[Dict[str, Any]],
) -> Tuple[str, Optional[str], Optional[str], str]:
    """Messages, template, tools and variables as the binding takes them."""
    _objects("messages", messages)
    if tools is not None:
        _objects("tools", tools)
    return (
        checks.as_json("messages", list(messages)),
        None if template is None else checks.text("chat_template", template),
        None if tools is None else checks.as_json("tools", list(tools)),
        checks.as_json("chat_template_kwargs", variables or {}),
    )


def answer_options(choice: Any, parallel: Any, reasoning: Any, chat_format: Any) -> Dict[str, Any]:
    """How an answer is to be written, as the binding takes it."""
    budget, ending = _reasoning(reasoning)
    return {
        "choice": _tool_choice(choice),
        "one_call": not checks.flag("parallel_tool_calls", parallel),
        "reasoning": budget,
        "reasoning_end": ending,
        "format": None if chat_format is None else checks.text("chat_format", chat_format),
    }


def _tool_choice(value: Any) -> str:
    if isinstance(value, str):
        return value if value in ("auto", "none", "required") else f"name:{checks.text('tool_choice', value)}"
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        kinds = '"auto", "none", "required", a name, or {"type": "function", "function": {"name": ...}}'
        raise InvalidRequestError(f"tool_choice takes {kinds}, but {value!r} was given")
    return f"name:{function['name']}"


def _reasoning(value: Any) -> Tuple[Optional[int], str]:
    """As the binding takes it, -1 without a limit and -2 not at all; and the text that ends a thought."""
    if value is None:
        return None, ""
    if isinstance(value, bool):
        return (-1 if value else -2), ""
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"budget", "end_text"})
        if unknown or "budget" not in value:
            raise InvalidRequestError(f'reasoning takes {{"budget": ..., "end_text": ...}}, but {value!r} was given')
        ending = checks.text("reasoning: end_text", value.get("end_text", ""))
        return checks.whole("reasoning: budget", value["budget"], 0), ending
    return checks.whole("reasoning", value, 0), ""


def _objects(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, dict) for v in value):
        raise InvalidRequestError(f"{name} takes a list of dicts, but {value!r} was given")


def answer(request: _lamina.Stream, asked: Asked) -> Completion:
    """The whole answer, taken apart; a wait that is interrupted cancels the request."""
    try:
        return taken_apart(completion(request.collect(), asked, request.media()), request.take_deltas(), request.warnings())
    except BaseException:
        request.close()
        raise
