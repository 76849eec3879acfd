"""What requests return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from ...outputs import Completion, TokenLogprob

Decode = Callable[[List[int]], str]


@dataclass
class Logprob:
    """How likely a token was."""

    logprob: float
    rank: Optional[int] = None
    """1 for the likeliest token; None for one that is not among those that were asked for."""
    decoded_token: Optional[str] = None


Logprobs = List[Dict[int, Logprob]]


@dataclass
class CompletionOutput:
    """One answer to a prompt."""

    index: int
    text: str
    token_ids: List[int]
    cumulative_logprob: Optional[float]
    logprobs: Optional[Logprobs]
    finish_reason: Optional[str] = None
    stop_reason: Union[int, str, None] = None
    lora_request: Any = None

    def finished(self) -> bool:
        """True: answers are returned whole."""
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    """A prompt and its answers."""

    request_id: str
    prompt: Optional[str]
    prompt_token_ids: List[int]
    prompt_logprobs: Optional[List[Optional[Dict[int, Logprob]]]]
    outputs: List[CompletionOutput]
    finished: bool = True
    metrics: Any = None
    lora_request: Any = None
    num_cached_tokens: Optional[int] = None


@dataclass
class BeamSearchSequence:
    """A sequence that beam search has found; prompt and answer both."""

    tokens: List[int]
    cum_logprob: float
    text: str
    finish_reason: Optional[str] = None
    stop_reason: Union[int, str, None] = None


@dataclass
class BeamSearchOutput:
    """The sequences of a prompt, best first."""

    sequences: List[BeamSearchSequence]


@dataclass
class EmbeddingOutput:
    """A vector."""

    embedding: List[float]

    @property
    def hidden_size(self) -> int:
        """Its width."""
        return len(self.embedding)


@dataclass
class EmbeddingRequestOutput:
    """A prompt and its vector."""

    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: List[int]
    finished: bool = True


@dataclass
class ScoringOutput:
    """How well two texts fit."""

    score: float


@dataclass
class ScoringRequestOutput:
    """A pair of texts and its score."""

    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: List[int]
    finished: bool = True


def completion_output(
    answer: Completion, count: Optional[int], text: str, decode: Decode, lora: Any, ends: Sequence[int] = ()
) -> CompletionOutput:
    """An answer with the `count` likeliest tokens of each place, or none where they were not asked for; `ends` are the
    caller's tokens that end one.
    """
    logs = answer.logprobs if count is not None else None
    reason = answer.stop_reason
    # There it says what of the caller's has ended the answer: nothing where the model's own token or a limit did.
    limits = ("grammar", "max_tokens", "context", "deadline")
    own = reason if reason in ends or (isinstance(reason, str) and reason not in limits) else None
    return CompletionOutput(
        index=answer.index,
        text=text,
        token_ids=list(answer.tokens),
        cumulative_logprob=None if logs is None else sum(log.logprob for log in logs),
        logprobs=None if logs is None else [ranked(log, count or 0, decode) for log in logs],
        finish_reason="stop" if answer.finish_reason == "tool_calls" else answer.finish_reason,
        stop_reason=own,
        lora_request=lora,
    )


def ranked(log: TokenLogprob, count: int, decode: Decode) -> Dict[int, Logprob]:
    """The chosen token first, then the `count` likeliest."""
    ranks = {token: rank for rank, token in enumerate(log.top, 1)}
    shown = {log.token: log.logprob, **dict(list(log.top.items())[:count])}
    return {token: Logprob(value, ranks.get(token), decode([token])) for token, value in shown.items()}
