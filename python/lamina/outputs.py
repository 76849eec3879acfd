"""What requests return."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from .chat import Delta, DeltaRow, ToolCall, joined
from .chat import Message as ChatMessage
from .tint import tinted


@dataclass(frozen=True)
class Usage:
    """Tokens of a request."""

    prompt_tokens: int
    """Of the prompt."""
    completion_tokens: int
    """Of all answers."""
    cached_tokens: int
    """Of the prompt: tokens that an earlier request had computed already."""
    cached_disk_tokens: int = 0
    """Of these: tokens that were read from disk."""
    image_tokens: int = 0
    """Of the prompt: tokens in whose places pictures stand."""
    audio_tokens: int = 0
    """Of the prompt: tokens in whose places sounds stand."""

    @property
    def total_tokens(self) -> int:
        """Tokens of the prompt and of the answer."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Timings:
    """Where the time of a request went."""

    prefill_seconds: float
    """From the first step to the first token."""
    decode_seconds: float
    """From the first token to the last."""
    prefill_tokens_per_second: float
    """Prompt tokens that were not cached, per second; 0 where there was no time to measure."""
    decode_tokens_per_second: float
    """Tokens after the first one, per second; 0 where there was no time to measure."""
    queue_seconds: float = 0.0
    """From the request to its first step."""
    preemptions: int = 0
    """How often the request lost its memory to others and was computed again."""
    io_wait_seconds: float = 0.0
    """How long its steps waited for weights that are read from disk, see `memory` of `LLM`."""
    context_shifts: int = 0
    """How often the context was full, and the older half of it left."""
    encode_seconds: float = 0.0
    """In which rows of the pictures and sounds of the prompt were made, beside other work."""


@dataclass(frozen=True)
class ImageUse:
    """What a picture of a prompt became."""

    size: Tuple[int, int]
    """Its width and height in pixels."""
    resized: Tuple[int, int]
    """Width and height in which the encoder sees it."""
    tokens: int
    """Tokens of the prompt in whose places its rows stand."""
    cached: bool
    """Its rows were kept from an earlier request: it was not encoded again."""


@dataclass(frozen=True)
class SoundUse:
    """What a sound of a prompt became."""

    seconds: float
    """Its length."""
    tokens: int
    """Tokens of the prompt in whose places its rows stand."""
    cached: bool
    """Its rows were kept from an earlier request: it was not encoded again."""


class Speculation(NamedTuple):
    """What guessing tokens ahead did for an answer. It changes the speed and nothing else."""

    drafted: int
    """Guessed tokens that were verified."""
    accepted: int
    """Of these, tokens that the answer has: each spared a step."""
    steps: int
    """Steps that verified any."""
    method: str
    """Who guessed last: `"ngram"`, `"suffix"`, `"lookahead"`, `"model"`, `"mtp"`, `"eagle"` or `"medusa"`."""


class TokenLogprob(NamedTuple):
    """How likely a chosen token was, before any sampling."""

    token: int
    """Its id."""
    logprob: float
    """Natural logarithm of its probability."""
    top: Dict[int, float]
    """The most likely tokens and their logprobs, most likely first; as many as `logprobs` asked for."""


@dataclass(frozen=True)
class Completion:
    """The answer to one prompt. With `n` above 1 this is the first answer, and `completions` has all of them."""

    text: str
    """Without the stop string; empty for a model without a tokenizer."""
    tokens: List[int]
    """Chosen tokens, without one that ended the answer."""
    finish_reason: str
    """`"stop"` (an end token, a stop string, or the end of the grammar), `"tool_calls"` (a chat that called a tool),
    `"length"` (max_tokens or the context) or `"cancelled"`."""
    stop_reason: Union[int, str, None]
    """What ended the answer: the end token, the stop string, `"grammar"` where nothing may follow, or the limit:
    `"max_tokens"`, `"context"`, `"deadline"`."""
    logprobs: Optional[List[TokenLogprob]]
    """One for each token; None unless `logprobs` was asked for."""
    prompt_logprobs: Optional[List[Optional[TokenLogprob]]]
    """One for each token of the prompt, None for the first; only the first answer has them, and only if `logprobs` and
    `echo` were both asked for."""
    usage: Usage
    """Tokens of the request."""
    timings: Timings
    """Where its time went."""
    complete: Optional[bool] = None
    """Whether the text satisfies the request's grammar; False: it was cut, and is a beginning of a text that does. None
    without a grammar."""
    index: int = 0
    """Which of the `n` answers."""
    speculation: Optional[Speculation] = None
    """What guessed tokens did; None where none were verified."""
    state: Optional[Dict[str, Any]] = field(default=None, repr=False)
    """Where the answer stands, as JSON: `generate(.., resume=state)` goes on from there as if it had not been cut."""
    others: Tuple["Completion", ...] = field(default=(), repr=False)
    """The other answers; `completions` has all."""
    warnings: List[str] = field(default_factory=list)
    """Of a chat: what was asked for and is not done."""
    answer: Optional[ChatMessage] = field(default=None, repr=False)
    """Of a chat: the answer taken apart; `text` is then its content."""
    images: List[ImageUse] = field(default_factory=list)
    """What the pictures of the prompt became, in their order."""
    sounds: List[SoundUse] = field(default_factory=list)
    """What the sounds of the prompt became, in their order."""
    words: Optional[List[str]] = field(default=None, repr=False)
    """Text of each token; None unless `logprobs` was asked for."""

    def _repr_html_(self) -> str:
        return tinted(self.text, self.words, self.logprobs, self.finish_reason)

    @property
    def completions(self) -> List["Completion"]:
        """All `n` answers to the prompt, this one first."""
        return [self, *self.others]

    @property
    def reasoning(self) -> Optional[str]:
        """What the model thought before it answered a chat, where it did."""
        return None if self.answer is None else self.answer.reasoning

    @property
    def tool_calls(self) -> List[ToolCall]:
        """Tools that the model calls in a chat."""
        return [] if self.answer is None else list(self.answer.tool_calls)

    @property
    def message(self) -> Dict[str, Any]:
        """The answer as a message, to be appended to a conversation."""
        if self.answer is None:
            return {"role": "assistant", "content": self.text}
        return self.answer.to_dict()


@dataclass(frozen=True)
class Piece:
    """What one token adds to a streamed answer."""

    text: str
    """Whole characters only: empty while a character or a possible stop string is incomplete."""
    token: Optional[int]
    """None for the last piece of an answer, and for the prompt that `echo` asks for."""
    index: int
    """Which of the `n` answers."""
    logprob: Optional[float]
    """Natural logarithm of the token's probability, if `logprobs` was asked for."""
    top_logprobs: Optional[Dict[int, float]]
    """The most likely tokens and their logprobs, if `logprobs` was asked for."""
    finish_reason: Optional[str]
    """Set on the last piece of an answer; see `Completion.finish_reason`."""
    forced: bool = False
    """The grammar left no other token: it was taken without sampling."""
    complete: Optional[bool] = None
    """Set on the last piece of an answer; see `Completion.complete`."""
    reasoning: str = ""
    """Of a chat: what the token adds to the reasoning."""
    tool_calls: Tuple[Delta, ...] = ()
    """Of a chat: what the token adds to calls of tools."""


class Beam(NamedTuple):
    """One of the likeliest answers to a prompt."""

    text: str
    """Without the stop string."""
    tokens: List[int]
    """Without one that ended the answer."""
    score: float
    """What answers are compared by: `cumulative_logprob / length ** length_penalty`, where an end token counts too."""
    cumulative_logprob: float
    """Sum of the natural logarithms of the tokens' probabilities, of an end token's too."""
    finish_reason: str
    """As `Completion.finish_reason`."""


class Score(NamedTuple):
    """How likely a continuation is behind its context."""

    logprob: float
    """Sum of the natural logarithms of its tokens' probabilities; 0 for an empty one."""
    greedy: bool
    """Each of its tokens is the likeliest one of its place."""


class Perplexity(NamedTuple):
    """How well a model predicts a text."""

    ppl: float
    """exp(nll)."""
    nll: float
    """Mean negative log-likelihood, in nats per token."""
    tokens: int
    """Tokens that were scored."""
    stderr: float
    """Standard error of `ppl`."""


@dataclass(frozen=True)
class VisionInfo:
    """What a model does with pictures."""

    family: str
    """As Lamina names it."""
    projector: str
    """As its settings name it."""
    mmproj: Optional[str]
    """The file of the encoder; None where it is part of the model."""
    max_tokens: int
    """Most tokens of a picture."""
    token_rule: str
    """How the tokens of a picture follow from its size."""
    marker: str
    """What stands for a picture in the text of a prompt."""


@dataclass(frozen=True)
class HearingInfo:
    """What a model does with sounds."""

    family: str
    """As Lamina names it."""
    tokens_per_second: float
    """Tokens of a second of sound."""
    sampling_rate: int
    """Samples a second that the encoder hears."""
    marker: str
    """What stands for a sound in the text of a prompt."""


@dataclass(frozen=True)
class ModelInfo:
    """Sizes and names of a loaded model."""

    path: str
    """File or folder that it was loaded from."""
    architecture: str
    """As the file names it."""
    family: str
    """As Lamina names it."""
    type: str
    """Type of most weights, such as `Q4_K_M`."""
    bytes: int
    """Of all tensors in the file."""
    params: int
    """Numbers in all tensors."""
    layers: int
    """Blocks of attention or recurrence with their feed-forward part."""
    hidden: int
    """Width of a hidden row."""
    vocab: int
    """Logits per position."""
    context: int
    """Longest sequence here, in tokens."""
    model_context: int
    """Longest sequence that the model was made for."""
    kv_dtype: str
    """Type of cached keys and values."""
    kv_bytes_per_token: float
    """Bytes of the cache that a token takes."""
    bytes_per_token: int
    """Bytes of weights that one decoded token reads."""
    threads: int
    """Threads that compute."""
    isa: str
    """Instruction set of the kernels."""
    device: str
    """What computes, such as `cpu`, `cuda:0`."""
    placement: Dict[str, Dict[str, int]]
    """Bytes of the weights of each class (`attention`, `ffn`, `experts`..) on a `device` beside the host, in `memory`, and on
    `disk` alone: those are read in every step, and experts when tokens ask for them."""
    draft: Optional[str]
    """What guesses tokens ahead, such as `ngram + suffix`; None where nothing does."""
    approximations: List[str]
    """Those that were asked for, such as `defer_experts 2` or `attention_sparsity 0.1`; none: answers are the model's own."""
    tokenizer: bool
    """False: the model takes and gives token ids only."""
    end_tokens: List[int]
    """Tokens that end an answer."""
    has_chat_template: bool
    """False: conversations are written by a default format, since the model brings none."""
    notes: List[str]
    """What you should know and no error says."""
    vision: Optional[VisionInfo] = None
    """What it does with pictures; None where it takes none."""
    hearing: Optional[HearingInfo] = None
    """What it does with sounds; None where it takes none."""


_Logprob = Tuple[float, List[Tuple[int, float]]]
_End = Tuple[str, Union[int, Tuple[int], str, None]]
_Times = Tuple[float, float, float, int, float, int]
_Scored = Tuple[int, float, List[Tuple[int, float]]]
_Drafted = Optional[Tuple[int, int, int, str]]
_Counts = Tuple[int, int, int]
_Sampler = Tuple[int, int, int, Optional[float]]
_Answer = Tuple[
    str, List[int], _End, Optional[bool], List[_Logprob], List[_Scored], _Counts, _Times, _Drafted, _Sampler
]


_Media = Tuple[List[Tuple[Tuple[int, int], Tuple[int, int], int, bool]], List[Tuple[float, int, bool]], float]


def model_info(vision: Optional[Dict[str, Any]], hearing: Optional[Dict[str, Any]], **figures: Any) -> ModelInfo:
    """From the keywords that the binding gives."""
    sees, hears = None if vision is None else VisionInfo(**vision), None if hearing is None else HearingInfo(**hearing)
    return ModelInfo(**figures, vision=sees, hearing=hears)


class Asked(NamedTuple):
    """What of a request its answers do not say."""

    echo: str
    """The prompt's text, where it was asked for."""
    stop: List[str]
    logprobs: bool
    prompt_logprobs: bool
    resumed: Sequence[int] = ()
    """Tokens that the answer had before."""
    words: Optional[Callable[[List[int]], List[str]]] = None
    """Text of each token."""


def completion(answers: List[_Answer], asked: Asked, media: _Media) -> Completion:
    """All answers to a prompt, from the binding's rows."""
    others = tuple(_answer(i, a, asked, (), media) for i, a in enumerate(answers) if i > 0)
    return _answer(0, answers[0], asked, others, media)


def taken_apart(
    answer: Completion, deltas: Iterable[Tuple[int, DeltaRow]], warnings: List[str]
) -> Completion:
    """Answers of a chat, with their reasoning, content and calls."""
    rows = list(deltas)

    def one(completion: Completion) -> Completion:
        own = joined(Delta(*row) for index, row in rows if index == completion.index)
        reason = completion.finish_reason
        called = reason == "stop" and bool(own.tool_calls)
        text, reason = own.content or "", "tool_calls" if called else reason
        return replace(completion, text=text, finish_reason=reason, warnings=warnings, answer=own)

    return replace(one(answer), others=tuple(one(other) for other in answer.others))


def _answer(
    index: int, row: _Answer, asked: Asked, others: Tuple[Completion, ...], media: _Media
) -> Completion:
    text, tokens, (reason, by), complete, rows, prompt_rows, (prompt, cached, disk), times, drafted, sampler = row
    queue, prefill, decode, preemptions, io_wait, shifts = times
    logs = [TokenLogprob(t, log, dict(top)) for t, (log, top) in zip(tokens, rows)] if asked.logprobs else None
    scores: Optional[List[Optional[TokenLogprob]]] = None
    if asked.prompt_logprobs and index == 0:
        scores = [None, *(TokenLogprob(t, log, dict(top)) for t, log, top in prompt_rows)]
    timings = Timings(
        prefill,
        decode,
        _per_second(prompt - cached, prefill),
        _per_second(len(tokens) - 1, decode),
        queue,
        preemptions,
        io_wait,
        shifts,
        media[2],
    )
    images, sounds = [ImageUse(*picture) for picture in media[0]], [SoundUse(*sound) for sound in media[1]]
    stop = asked.stop[by[0]] if isinstance(by, tuple) else by
    soft = [sum(one.tokens for one in images), sum(one.tokens for one in sounds)]
    usage = Usage(prompt, len(tokens), cached, disk, *soft)
    speculation = None if drafted is None else Speculation(*drafted)
    state = {"tokens": [*asked.resumed, *tokens], **dict(zip(("seed", "index", "drawn", "surprise"), sampler))}
    words = asked.words(tokens) if asked.words is not None and asked.logprobs else None
    return Completion(
        asked.echo + text, tokens, reason, stop, logs, scores, usage, timings, complete, index, speculation, state, others,
        images=images, sounds=sounds, words=words,
    )  # fmt: skip


def _per_second(tokens: int, seconds: float) -> float:
    return tokens / seconds if tokens > 0 and seconds > 0 else 0.0
