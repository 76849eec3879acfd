"""`LLM`: a loaded model, as vLLM calls it."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from ...closing import Closing
from ...errors import InvalidRequestError, UnsupportedError
from ...media import any_in
from ...llm import LLM as Model
from ...outputs import Completion
from ...types import Message, Path, Tool
from .outputs import (
    BeamSearchOutput,
    BeamSearchSequence,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
    completion_output,
    ranked,
)
from .params import BeamSearchParams, LoRARequest, SamplingParams

Prompt = Union[str, List[int], Dict[str, Any]]
Prompts = Union[Prompt, Sequence[Prompt]]
SamplingArg = Union[None, SamplingParams, Sequence[SamplingParams]]


class LLM(Closing):
    """A model, ready to answer. `llm` is the `lamina.LLM` behind it."""

    def __init__(self, model: Optional[Path] = None, *, seed: int = 0, **options: Any) -> None:
        """Loads a model: a GGUF file, a folder, or a name such as "hf:org/repo"; None for the one inside the package.

        options: those of vLLM's `LLM` as `lamina.LLM` understands them (max_model_len, gpu_memory_utilization, ..), and its
        own. UnsupportedError names one that asks for what is not here, TypeError one that does not exist.
        """
        self.llm = Model(model, seed=seed, **options)
        self._numbers = itertools.count()

    def close(self) -> None:
        """Ends all requests and frees the memory."""
        self.llm.close()

    def get_tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self.llm)

    def get_default_sampling_params(self) -> SamplingParams:
        """What `generate` takes where nothing is given."""
        return SamplingParams()

    def generate(
        self,
        prompts: Prompts,
        sampling_params: SamplingArg = None,
        *,
        use_tqdm: Any = True,
        lora_request: Union[None, LoRARequest, Sequence[Optional[LoRARequest]]] = None,
    ) -> List[RequestOutput]:
        """Continues prompts, all as one batch: texts, ids, or dicts with "prompt" or "prompt_token_ids". With a list of
        sampling_params or of adapters, each prompt has its own. There is no line of progress, whatever use_tqdm says.
        """
        given = _prompts(prompts)
        params, loras = _each(sampling_params, len(given), "sampling_params"), _each(lora_request, len(given), "lora_request")
        wanted = [one or self.get_default_sampling_params() for one in params]
        answers = self._answers(given, wanted, loras)
        return [self._output(*row) for row in zip(given, answers, wanted, loras)]

    def _answers(self, given: List[Any], wanted: List[SamplingParams], loras: List[Any]) -> List[Completion]:
        """Of prompts whose options may differ: those with the same ones are one call, and all calls share steps."""
        groups: Dict[Any, List[int]] = {}
        for i, (params, lora) in enumerate(zip(wanted, loras)):
            groups.setdefault((id(params), lora and lora.lora_name), []).append(i)

        def answer(places: List[int]) -> List[Completion]:
            options = {"sampling_params": wanted[places[0]].ours(), **_lora(loras[places[0]])}
            found: List[Completion] = self.llm.generate([given[i] for i in places], **options)
            return found

        if len(groups) < 2:
            return [one for places in groups.values() for one in answer(places)]
        with ThreadPoolExecutor(min(len(groups), 256)) as pool:
            found = {i: one for places, row in zip(groups.values(), pool.map(answer, groups.values())) for i, one in zip(places, row)}
        return [found[i] for i in range(len(given))]

    def chat(
        self,
        messages: Union[Sequence[Message], Sequence[Sequence[Message]]],
        sampling_params: SamplingArg = None,
        use_tqdm: Any = True,
        lora_request: Optional[LoRARequest] = None,
        chat_template: Optional[str] = None,
        chat_template_content_format: str = "auto",
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Optional[Sequence[Tool]] = None,
        chat_template_kwargs: Optional[Dict[str, Any]] = None,
        mm_processor_kwargs: Optional[Dict[str, Any]] = None,
    ) -> List[RequestOutput]:
        """Answers a conversation, or several as one batch. The text is all that the model writes: nothing is taken apart."""
        if continue_final_message:
            raise UnsupportedError("continue_final_message=True is not supported: generate continues apply_chat_template's text")
        if mm_processor_kwargs:
            raise UnsupportedError("mm_processor_kwargs is not supported: image_max_tokens of LLM bounds pictures")
        if chat_template_content_format not in ("auto", "string", "openai"):
            raise InvalidRequestError(f'chat_template_content_format takes "auto", not {chat_template_content_format!r}')
        talks: List[Any] = list(messages) if messages and not isinstance(messages[0], dict) else [messages]
        if any(any_in(talk) for talk in talks):
            raise UnsupportedError("pictures and sounds in messages are not supported here: lamina.LLM.chat takes them")
        texts = [
            self.llm.apply_chat_template(one, tools, add_generation_prompt, chat_template, **(chat_template_kwargs or {}))
            for one in talks
        ]
        # A template writes special tokens, and the beginning one where the model wants it.
        ids: List[Prompt] = [{"prompt_token_ids": self._template_ids(text), "prompt": text} for text in texts]
        return self.generate(ids, sampling_params, use_tqdm=use_tqdm, lora_request=lora_request)

    def embed(
        self, prompts: Prompts, *, use_tqdm: Any = True, lora_request: Optional[LoRARequest] = None
    ) -> List[EmbeddingRequestOutput]:
        """A vector of length 1 for each prompt."""
        given = _prompts(prompts)
        several: Any = given
        vectors = self.llm.embed(several, **_lora(lora_request))
        return [
            EmbeddingRequestOutput(self._id(), EmbeddingOutput(vector.tolist()), self._ids(prompt))
            for prompt, vector in zip(given, vectors)
        ]

    def score(
        self, data_1: Union[str, Sequence[str]], data_2: Union[str, Sequence[str]], *, use_tqdm: Any = True
    ) -> List[ScoringRequestOutput]:
        """How well texts fit: one with each of several, or in pairs. A reranker's probability, else the cosine of two vectors."""
        second = [data_2] if isinstance(data_2, str) else list(data_2)
        first = [data_1] * len(second) if isinstance(data_1, str) else list(data_1)
        first = first * len(second) if len(first) == 1 else first
        if len(first) != len(second):
            raise InvalidRequestError(f"score takes one text, or as many as the {len(second)} others, but {len(first)} were given")
        outputs = []
        for a, b, value in zip(first, second, self._scores(first, second)):
            outputs.append(ScoringRequestOutput(self._id(), ScoringOutput(float(value)), self._ids(a) + self._ids(b)))
        return outputs

    def beam_search(
        self, prompts: Prompts, params: BeamSearchParams, lora_request: Optional[LoRARequest] = None, use_tqdm: Any = False
    ) -> List[BeamSearchOutput]:
        """The likeliest answers to each prompt, as many as the search has beams; `text` and `tokens` begin with the prompt."""
        return [BeamSearchOutput(self._beams(prompt, params, lora_request)) for prompt in _prompts(prompts)]

    def _beams(
        self, prompt: Union[str, List[int]], params: BeamSearchParams, lora: Optional[LoRARequest]
    ) -> List[BeamSearchSequence]:
        width, before = params.beam_width, self._ids(prompt)
        text = prompt if isinstance(prompt, str) else self.llm.detokenize(prompt)
        found = self.llm.beam(
            prompt, width, params.max_tokens, length_penalty=params.length_penalty, n=width, **_lora(lora)
        )
        return [BeamSearchSequence(before + list(b.tokens), b.cumulative_logprob, text + b.text) for b in found]

    def _scores(self, first: List[str], second: List[str]) -> Sequence[float]:
        try:
            return [1 / (1 + np.exp(-self.llm.rerank(a, [b])[0])) for a, b in zip(first, second)]
        except UnsupportedError:
            rows = np.sum(self.llm.embed(first) * self.llm.embed(second), axis=1)
            return [float(row) for row in rows]

    def _template_ids(self, text: str) -> List[int]:
        """Ids of what a template wrote. The beginning token is in its text, or is not wanted."""
        ids = self.llm.tokenize(text, special=True)
        plain = self.llm.tokenize("a")
        begun = self.llm.tokenize("a", special=True)
        first = begun[:1] if begun[:1] != plain[:1] else []
        return ids[1:] if first and ids[:2] == first * 2 else ids

    def _ids(self, prompt: Union[str, List[int]]) -> List[int]:
        """Ids that a prompt becomes: behind a text's beginning token, with special tokens in it as text."""
        if not isinstance(prompt, str):
            return list(prompt)
        empty = self.llm.tokenize("", special=True)
        return [*empty[:1], *self.llm.tokenize(prompt)]

    def _id(self) -> str:
        return str(next(self._numbers))

    def _output(
        self, prompt: Union[str, List[int]], answer: Completion, params: SamplingParams, lora: Optional[LoRARequest]
    ) -> RequestOutput:
        decode = self.llm.detokenize
        before = None
        if params.prompt_logprobs is not None:
            rows = answer.prompt_logprobs or []
            before = [None if row is None else ranked(row, params.prompt_logprobs, decode) for row in rows]
        # With the prompt's logprobs its text comes too, before each answer.
        echoed = 0 if before is None else len(prompt if isinstance(prompt, str) else decode(prompt))
        outputs = [
            completion_output(one, params.logprobs, one.text[echoed:], decode, lora, params.stop_token_ids)
            for one in answer.completions
        ]
        text = prompt if isinstance(prompt, str) else getattr(prompt, "text", None)
        cached = answer.usage.cached_tokens
        return RequestOutput(
            self._id(), text, self._ids(prompt), before, outputs, lora_request=lora, num_cached_tokens=cached
        )


class Tokenizer:
    """The part of a transformers tokenizer that offline programs use."""

    def __init__(self, llm: Model) -> None:
        self._llm = llm
        self.eos_token_id = next(iter(llm.info.end_tokens), None)

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        """Ids of a text."""
        return self._llm.tokenize(text, special=add_special_tokens)

    def decode(self, token_ids: Union[int, Sequence[int]]) -> str:
        """Text of ids, without special tokens."""
        return self._llm.detokenize([token_ids] if isinstance(token_ids, int) else list(token_ids))

    def apply_chat_template(
        self, conversation: Sequence[Message], tokenize: bool = True, add_generation_prompt: bool = False, **variables: Any
    ) -> Union[str, List[int]]:
        """The text, or the ids, that a conversation becomes."""
        text = self._llm.apply_chat_template(conversation, add_generation_prompt=add_generation_prompt, **variables)
        return self._llm.tokenize(text, special=True) if tokenize else text


class _Ids(List[int]):
    """Ids whose text is known."""

    text: Optional[str] = None


def _prompts(prompts: Any) -> List[Union[str, List[int]]]:
    """Texts and ids of one prompt, or of several. Ids alone are one prompt, and lists of them several."""
    single = isinstance(prompts, (str, dict)) or (bool(prompts) and all(isinstance(one, int) for one in prompts))
    return [_prompt(one) for one in ([prompts] if single else prompts)]


def _prompt(prompt: Any) -> Union[str, List[int]]:
    if not isinstance(prompt, dict):
        return prompt if isinstance(prompt, str) else list(prompt)
    other = next((name for name in prompt if name not in ("prompt", "prompt_token_ids")), None)
    if other is not None:
        raise UnsupportedError(f"a prompt with {other!r} is not supported: it has prompt or prompt_token_ids")
    if prompt.get("prompt_token_ids") is None:
        return str(prompt["prompt"])
    ids = _Ids(prompt["prompt_token_ids"])
    ids.text = prompt.get("prompt")
    return ids


def _each(value: Any, count: int, name: str) -> List[Any]:
    """One value for each prompt."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise InvalidRequestError(f"{name} has {len(value)} entries, but there are {count} prompts")
    return list(value)


def _lora(request: Optional[LoRARequest]) -> Dict[str, Any]:
    return {} if request is None else {"lora": request.lora_name}
