"""What of a request its answers do not say."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from . import _lamina, checks
from .outputs import Asked
from .sampling import SamplingParams, wants_logprobs


CONTEXT = 8
"""Tokens whose text is looked at together."""


def asked(model: _lamina.Model, prompt: checks.Prompt, params: SamplingParams, said: Sequence[int] = ()) -> Asked:
    """What answers to a prompt are read with; `said` is what the answer had before."""
    logprobs = wants_logprobs(params)
    return Asked(
        echo(model, prompt, params), params.stop, logprobs, logprobs and params.echo, said, lambda ids: words(model, ids)
    )


def words(model: _lamina.Model, tokens: Sequence[int]) -> List[str]:
    """Text of each token, as what it adds to those before it. A character of several tokens stands at its last one."""

    def text(first: int, end: int) -> str:
        return model.detokenize(np.array(tokens[first:end], dtype=np.uint32)).rstrip("\ufffd")

    found, first = [], 0
    for end in range(1, len(tokens) + 1):
        before, now = text(first, end - 1), text(first, end)
        found.append(now[len(before) :])
        # What has come a while ago does not change how a token is written.
        if len(now) > len(before) and end - first > CONTEXT:
            first = end - 1
    return found


def echo(model: _lamina.Model, prompt: checks.Prompt, params: SamplingParams) -> str:
    """The prompt's text, where it is to be part of the answer's."""
    if not params.echo:
        return ""
    return prompt if isinstance(prompt, str) else model.detokenize(prompt)
