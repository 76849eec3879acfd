"""What of a request its answers do not say."""

from __future__ import annotations

from typing import Sequence

from . import _lamina, checks
from .outputs import Asked
from .sampling import SamplingParams, wants_logprobs


def asked(model: _lamina.Model, prompt: checks.Prompt, params: SamplingParams, said: Sequence[int] = ()) -> Asked:
    """What answers to a prompt are read with; `said` is what the answer had before."""
    logprobs = wants_logprobs(params)
    return Asked(echo(model, prompt, params), params.stop, logprobs, logprobs and params.echo, said)


def echo(model: _lamina.Model, prompt: checks.Prompt, params: SamplingParams) -> str:
    """The prompt's text, where it is to be part of the answer's."""
    if not params.echo:
        return ""
    return prompt if isinstance(prompt, str) else model.detokenize(prompt)
