"""Formats of conversations, by the names that llama-cpp-python has for them.

They are kept as templates of `lamina.LLM.chat`. Left out are `functionary` and its kin, which are programs of their own, and
`openbuddy`, `open-orca`, `snoozy` and `intel`, whose names say no more than a system prompt of one model of 2023.
"""

from __future__ import annotations

import json
from typing import Dict, NamedTuple, Optional, Tuple

_HEAD = """\
{%- set said = namespace(system='') -%}
{%- for m in messages if m.role == 'system' -%}
    {%- if loop.first and m.content is string -%}{%- set said.system = m.content -%}{%- endif -%}
{%- endfor -%}"""

_TURNS = (
    _HEAD
    + """\
{{- system[0] ~ (said.system or default) ~ system[1] if system | length == 2 else system[0] -}}
{%- for m in messages if m.role in roles -%}
    {%- if m.content is string and m.content -%}
        {{- roles[m.role] ~ before ~ m.content ~ (separators[loop.index0 % 2]) -}}
    {%- else -%}{{- roles[m.role] ~ empty -}}
    {%- endif -%}
{%- endfor -%}
{{- last -}}"""
)

_LLAMA_2 = (
    _HEAD
    + """\
{{- ('[INST] <<SYS>>\\n' ~ said.system ~ '\\n<</SYS>>' if said.system else '') ~ ' ' -}}
{%- set roles = {'user': '<s>[INST]', 'assistant': '[/INST]'} -%}
{%- for m in messages if m.role in roles -%}
    {%- set text = m.content if m.content is string else '' -%}
    {%- set separator = ' ' if loop.index0 % 2 == 0 else '</s>' -%}
    {%- if said.system and loop.first -%}{{- text ~ separator -}}
    {%- elif text -%}{{- roles[m.role] ~ text ~ ' ' ~ separator -}}
    {%- else -%}{{- roles[m.role] ~ ' ' -}}
    {%- endif -%}
{%- endfor -%}
{{- '[/INST]' -}}"""
)

_MISTRAL = """\
{%- for m in messages if m.content is string -%}
    {%- if m.role == 'user' -%}{{- '[INST] ' ~ m.content -}}
    {%- elif m.role == 'assistant' -%}{{- ' [/INST]' ~ m.content ~ '</s>' -}}
    {%- endif -%}
{%- endfor -%}
{{- ' [/INST]' -}}"""


class ChatFormat(NamedTuple):
    """How a conversation is written."""

    template: str
    """As Jinja source."""
    stop: Optional[str] = None
    """A text that ends an answer."""


def _turns(
    system: str,
    roles: Tuple[str, str],
    separators: Tuple[str, str],
    stop: Optional[str] = None,
    *,
    default: str = "",
    before: str = "",
    empty: str = "",
    last: Optional[str] = None,
    more: Optional[Dict[str, str]] = None,
) -> ChatFormat:
    """A system prompt, and turns that a role begins.

    system: what is written of the first system message, which stands for `{}`; default: that message where there is none.
    roles: of the user and the assistant. separators: behind turns, in turn. before, empty: behind a role, where text follows
    and where none does. last: what the answer stands behind; None: the assistant's role. more: other roles, by their names.
    """
    user, assistant = roles
    said = {
        "system": system.split("{}"),
        "default": default,
        "roles": {"user": user, "assistant": assistant, **(more or {})},
        "separators": separators,
        "before": before,
        "empty": empty,
        "last": assistant + empty if last is None else last,
    }
    values = "".join("{%- set " + name + " = " + json.dumps(value) + " -%}" for name, value in said.items())
    return ChatFormat(values + _TURNS, stop)


def _chatml(system: str, roles: Tuple[str, str], end: str, stop: str, default: str = "") -> ChatFormat:
    return _turns(system + end + "\n", roles, (end + "\n", end + "\n"), stop, default=default, before="\n", empty="\n")


def _colon(
    system: str, roles: Tuple[str, str], separators: Tuple[str, str], stop: Optional[str] = None, last: Optional[str] = None
) -> ChatFormat:
    return _turns(system, roles, separators, stop, before=": ", empty=":", last=last)


_HEADER = "<|start_header_id|>{}<|end_header_id|>\n\n"
_VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
)
_IM = ("<|im_start|>user", "<|im_start|>assistant")

CHAT_FORMATS: Dict[str, ChatFormat] = {
    "llama-2": ChatFormat(_LLAMA_2),
    "llama-3": _turns(
        "", (_HEADER.format("user"), _HEADER.format("assistant")), ("<|eot_id|>", "<|eot_id|>"), "<|eot_id|>",
        more={"system": _HEADER.format("system")},
    ),
    "alpaca": _colon("{}\n\n", ("### Instruction", "### Response"), ("\n\n", "</s>"), last=""),
    "qwen": _chatml("<|im_start|>system\n{}", _IM, "<|im_end|>", "<|endoftext|>", "You are a helpful assistant."),
    "vicuna": _colon(_VICUNA, ("USER", "ASSISTANT"), (" ", "</s>")),
    "oasst_llama": _turns(
        "[INST] <<SYS>>\n{}\n<</SYS>>\n\n", ("<|prompter|>", "<|assistant|>"), ("</s>", "</s>")
    ),
    "baichuan-2": _turns("{}", ("<reserved_106>", "<reserved_107>"), ("", "")),
    "baichuan": _turns("{}", ("<reserved_102>", "<reserved_103>"), ("", "")),
    "redpajama-incite": _colon("{}\n", ("<human>", "<bot>"), ("\n", "\n"), "<human>"),
    "phind": _colon(
        "### System Prompt\nYou are an intelligent programming assistant.\n\n",
        ("### User Message", "### Assistant"),
        ("\n\n", "\n\n"),
    ),
    "mistrallite": _turns("<|system|>{}</s>", ("<|prompter|>", "</s>\n<|assistant|>"), (" ", " ")),
    "zephyr": _chatml("<|system|>\n{}", ("<|user|>\n", "<|assistant|>\n"), "</s>", "</s>"),
    "pygmalion": _chatml("<|system|>{}", ("<|user|>", "<|model|>"), "\n", "\n"),
    "chatml": _chatml("<|im_start|>system\n{}", _IM, "<|im_end|>", "<|im_end|>"),
    "mistral-instruct": ChatFormat(_MISTRAL, "</s>"),
    "chatglm3": _turns("<|system|>\n{}", ("<|user|>", "<|assistant|>"), ("", ""), "</s>", before="\n "),
    "openchat": _chatml(
        "{}<|end_of_turn|>",
        ("GPT4 Correct User: ", "<|end_of_turn|>GPT4 Correct Assistant: "),
        "<|end_of_turn|>",
        "<|end_of_turn|>",
    ),
    "gemma": _turns(
        "", ("<start_of_turn>user\n", "<start_of_turn>model\n"), ("<end_of_turn>\n", "<end_of_turn>\n"), "<end_of_turn>\n"
    ),
}  # fmt: skip
"""By name."""
