"""`Llama`: a loaded model, as llama-cpp-python calls it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path as File
from typing import Any, Dict, Generator, Iterator, List, NamedTuple, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from ...closing import Closing
from ...errors import InvalidRequestError, UnsupportedError
from ...foreign import LLAMA
from ...llm import LLM
from ...outputs import Completion
from ...types import Message, Path, Tool
from . import answers
from .chat_formats import CHAT_FORMATS, ChatFormat
from .parts import (
    LlamaGrammar,
    LlamaPromptLookupDecoding,
    LlamaRAMCache,
    LlamaState,
    LlamaTokenizer,
    Stopping,
    closed_form,
    hub_name,
)

LLAMA_DEFAULT_SEED = 0xFFFFFFFF
"""A seed that differs each time."""

Answer = Dict[str, Any]
"""A dict of llama-cpp-python's `llama_types`."""

SAMPLING: Dict[str, Any] = {
    "temperature": 0.8, "top_p": 0.95, "min_p": 0.05, "typical_p": 1.0, "top_k": 40, "frequency_penalty": 0.0,
    "presence_penalty": 0.0, "repeat_penalty": 1.0, "mirostat_mode": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1,
    "seed": None, "stop": None, "logit_bias": None, "grammar": None, "logits_processor": None, "stopping_criteria": None,
    "tfs_z": 1.0, "model": None,
}  # fmt: skip
"""Options of all requests, and their defaults there."""


class Request(NamedTuple):
    """Options of a request in our names, and what its functions found."""

    options: Dict[str, Any]
    stopping: Stopping
    model: Optional[str]


class Llama(Closing):
    """A model, ready to answer. `llm` is the `lamina.LLM` behind it, which threads may share: no lock is needed."""

    def __init__(
        self,
        model_path: Path,
        *,
        n_ctx: int = 512,
        seed: int = LLAMA_DEFAULT_SEED,
        chat_format: Optional[str] = None,
        draft_model: Any = None,
        lora_path: Optional[Path] = None,
        lora_scale: float = 1.0,
        **options: Any,
    ) -> None:
        """Loads a model. n_ctx: 0 for the model's own context.

        chat_format: a name of `CHAT_FORMATS`; None for the model's template, or "llama-2" where it has none.

        options: the other parameters of llama-cpp-python's `Llama`, as `lamina.LLM` understands them; UnsupportedError
        names one that asks for what is not here, TypeError one that does not exist.
        """
        _known("Llama", options, LLAMA)
        if chat_format is not None and chat_format not in CHAT_FORMATS:
            raise UnsupportedError(
                f"chat_format={chat_format!r} is not supported: leave it out for the model's own template, or take one of "
                + ", ".join(CHAT_FORMATS)
            )
        if lora_path is not None:
            options["loras"] = {"lora": lora_path}
        options["n_ctx"] = n_ctx
        options["draft_model"] = "ngram" if isinstance(draft_model, LlamaPromptLookupDecoding) else draft_model
        self.llm = LLM(path=model_path, **options)
        fallback = None if self.llm.info.has_chat_template else "llama-2"
        self.model_path, self.chat_format = str(model_path), chat_format or fallback
        self._lora = None if lora_path is None else {"lora": lora_scale}
        self._ids: List[int] = []
        self.set_seed(seed)

    @classmethod
    def from_pretrained(cls, repo_id: str, filename: Optional[str] = None, **options: Any) -> Llama:
        """Loads a file of the hub by its name, or by a pattern that a `*` begins, such as "*Q4_K_M.gguf"."""
        for name in ("additional_files", "local_dir", "local_dir_use_symlinks", "cache_dir"):
            if options.pop(name, None) not in (None, "auto"):
                raise UnsupportedError(f"{name} is not supported: HF_HUB_CACHE says where the hub's files are kept")
        return cls(hub_name(repo_id, filename), **options)

    def create_completion(
        self,
        prompt: Union[str, List[int]],
        suffix: Optional[str] = None,
        max_tokens: Optional[int] = 16,
        logprobs: Optional[int] = None,
        echo: bool = False,
        stream: bool = False,
        **options: Any,
    ) -> Any:
        """Continues a prompt: a dict, or with `stream` an iterator of dicts. options: those of `SAMPLING`.

        max_tokens: None and 0 are as many as the context holds.
        """
        if suffix is not None:
            raise UnsupportedError("suffix is not supported: `lamina serve` fills gaps at /infill")
        request = self._request("create_completion", options, logprobs=logprobs, max_tokens=_limit(max_tokens))
        head = answers.Head.new("cmpl", "text_completion", request.model or self.model_path)
        ids = self.tokenizer().encode(prompt) if isinstance(prompt, str) else list(prompt)
        shown = prompt if isinstance(prompt, str) else self.llm.detokenize(ids)
        if stream:
            return self._text_chunks(head, ids, shown, echo, request)
        out = self.llm.generate(ids, echo=echo and logprobs is not None, **request.options)
        self._ids = [*ids, *out.tokens]
        text = out.text[len(self.llm.detokenize(ids)) :] if echo and logprobs is not None else out.text
        table = None if out.logprobs is None else self._logprobs(out, ids, shown, echo)
        choice = answers.text_choice(shown + text if echo else text, table, out.finish_reason)
        return head.dict(choice, out.usage)

    __call__ = create_completion

    def create_chat_completion(
        self,
        messages: Sequence[Message],
        tools: Optional[Sequence[Tool]] = None,
        tool_choice: Union[None, str, Dict[str, Any]] = None,
        response_format: Optional[Dict[str, Any]] = None,
        max_tokens: Optional[int] = None,
        stream: bool = False,
        temperature: float = 0.2,
        logprobs: Optional[bool] = None,
        top_logprobs: Optional[int] = None,
        **options: Any,
    ) -> Any:
        """Answers a conversation: a dict, or with `stream` an iterator of dicts. options: those of `SAMPLING`.

        response_format: objects of a schema have no members beside those that it names, as llama.cpp reads schemas.
        """
        for name in ("functions", "function_call"):
            if options.pop(name, None) is not None:
                raise UnsupportedError(f"{name} is not supported: take tools and tool_choice")
        asked = (top_logprobs or 0) if logprobs else None
        options["temperature"] = temperature
        request = self._request("create_chat_completion", options, logprobs=asked, max_tokens=_limit(max_tokens))
        kind = "chat.completion.chunk" if stream else "chat.completion"
        head = answers.Head.new("chatcmpl", kind, request.model or self.model_path)
        said: Dict[str, Any] = {**request.options, "tool_choice": tool_choice or "auto"}
        form = None if said.get("grammar") else closed_form(response_format)
        if form is not None:
            response_format, said["grammar"] = None, form
        if self.chat_format is not None:
            _in_format(said, CHAT_FORMATS[self.chat_format])
        if stream:
            return answers.chat_chunks(head, self.llm.chat(messages, tools, response_format, True, **said), self._word)
        answer = self.llm.chat(messages, tools, response_format, **said)
        return head.dict(answers.chat_choice(answer, self._word), answer.usage)

    def create_chat_completion_openai_v1(self, *args: Any, **options: Any) -> Any:
        """As create_chat_completion, in the classes of the package `openai`, which has to be installed."""
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        answer = self.create_chat_completion(*args, **options)
        if options.get("stream"):
            return (ChatCompletionChunk.model_validate(chunk) for chunk in answer)
        return ChatCompletion.model_validate(answer)

    def create_embedding(self, input: Union[str, List[str]], model: Optional[str] = None) -> Answer:  # noqa: A002
        """Vectors of texts, in a dict."""
        texts = [input] if isinstance(input, str) else input
        rows, count = self.embed(texts, return_count=True)
        data = [{"object": "embedding", "embedding": row, "index": i} for i, row in enumerate(rows)]
        used = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": model or self.model_path, "usage": used}

    def embed(
        self,
        input: Union[str, List[str]],  # noqa: A002
        normalize: Optional[bool] = None,
        truncate: bool = True,
        return_count: bool = False,
    ) -> Any:
        """Vectors of length 1. truncate: texts are cut to the context; else a longer one is an error."""
        if normalize is False:
            raise UnsupportedError("normalize=False is not supported: vectors have length 1 here")
        cut = self.n_ctx() if truncate else None
        ids = [self.tokenizer().encode(text)[:cut] for text in ([input] if isinstance(input, str) else input)]
        rows = self.llm.embed(ids, lora=self._lora).tolist() if ids else []
        out = rows[0] if isinstance(input, str) else rows
        return (out, sum(map(len, ids))) if return_count else out

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> List[int]:
        """Token ids of UTF-8 text. add_bos: with those that the model wants around a text."""
        read = text.decode("utf-8")
        begin = self.llm.tokenize("", special=True)[:1]
        if not special:
            return [*(begin if add_bos else []), *self.llm.tokenize(read)]
        ids = self.llm.tokenize(read, special=True)
        return ids if add_bos or ids[:1] != begin else ids[len(begin) :]

    def detokenize(
        self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False
    ) -> bytes:
        """UTF-8 text of token ids, without special tokens; prev_tokens stand before it and are left out."""
        if special:
            raise UnsupportedError("special=True is not supported: texts are without special tokens")
        before = self.llm.detokenize(prev_tokens) if prev_tokens else ""
        return self.llm.detokenize([*(prev_tokens or []), *tokens])[len(before) :].encode("utf-8")

    def tokenizer(self) -> LlamaTokenizer:
        """The tokenizer."""
        return LlamaTokenizer(self)

    def token_bos(self) -> int:
        """The token that a text begins with; -1 where it has none."""
        return next(iter(self.llm.tokenize("", special=True)), -1)

    def token_eos(self) -> int:
        """A token that ends an answer; -1 where there is none."""
        return next(iter(self.llm.info.end_tokens), -1)

    def n_vocab(self) -> int:
        """Tokens of the model."""
        return self.llm.info.vocab

    def n_ctx(self) -> int:
        """Longest sequence in tokens."""
        return self.llm.info.context

    def n_embd(self) -> int:
        """Numbers of a vector."""
        return self.llm.info.hidden

    @property
    def n_tokens(self) -> int:
        """Tokens of the current text: what was evaluated, or the last completion with its prompt."""
        return len(self._ids)

    @property
    def input_ids(self) -> NDArray[np.intc]:
        """The current text."""
        return np.array(self._ids, np.intc)

    @property
    def scores(self) -> NDArray[np.float32]:
        """Logits at each token of the current text, [tokens, vocab]; each reading computes them anew."""
        return self.llm.logits(self._ids, lora=self._lora)

    def reset(self) -> None:
        """Begins an empty text."""
        self._ids = []

    def eval(self, tokens: Sequence[int]) -> None:
        """Puts tokens behind the current text and computes them."""
        ids = [*self._ids, *tokens]
        if ids:
            self.llm.generate(ids, max_tokens=0, lora=self._lora)
        self._ids = ids

    def sample(self, temp: float = 0.8, **options: Any) -> int:
        """A token that may follow the current text; it is not put behind it. options: those of `SAMPLING`."""
        request = self._request("sample", {**options, "temperature": temp}, max_tokens=1)
        token: int = self.llm.generate(self._ids, ignore_eos=True, **request.options).tokens[0]
        return token

    def generate(
        self, tokens: Sequence[int], temp: float = 0.8, reset: bool = True, **options: Any
    ) -> Generator[int, Optional[Sequence[int]], None]:
        """Tokens that follow, end tokens too, until the context is full, criteria end it, or the caller does.

        What is sent to the generator goes behind the last token. options: those of `SAMPLING`.
        """
        request = self._request("generate", {**options, "temperature": temp}, max_tokens=None)
        self._ids = [*([] if reset else self._ids), *tokens]
        sent: Optional[Sequence[int]] = ()
        while sent is not None:
            self._ids.extend(sent)
            sent = yield from self._until_sent(request)

    def save_state(self) -> LlamaState:
        """The current text with what memory has of it."""
        if not self._ids:
            return LlamaState([], b"")
        with tempfile.TemporaryDirectory() as folder:
            file = File(folder) / "state"
            self.llm.save_state(file, self._ids, lora=self._lora)
            return LlamaState(list(self._ids), file.read_bytes())

    def load_state(self, state: LlamaState) -> None:
        """Goes back to a text that `save_state` kept."""
        if state.llama_state:
            with tempfile.TemporaryDirectory() as folder:
                file = File(folder) / "state"
                file.write_bytes(state.llama_state)
                self.llm.load_state(file, lora=self._lora)
        self._ids = list(state.input_ids)

    def set_cache(self, cache: Optional[LlamaRAMCache]) -> None:
        """Changes nothing: beginnings that were computed before are always found again."""

    def set_seed(self, seed: int) -> None:
        """Requests without a seed get theirs from this."""
        self._random = random.Random(None if seed in (None, -1, LLAMA_DEFAULT_SEED) else seed)

    def close(self) -> None:
        """Ends all requests and frees the memory."""
        self.llm.close()

    def _request(self, call: str, given: Dict[str, Any], **own: Any) -> Request:
        _known(call, given, SAMPLING)
        said = {**SAMPLING, **{name: value for name, value in given.items() if value is not None}}
        if said.pop("tfs_z") != 1.0:
            raise UnsupportedError("tfs_z is not supported: top_p, min_p and typical_p cut the tail")
        grammar, bias = said.pop("grammar"), said.pop("logit_bias")
        if grammar is not None and not isinstance(grammar, LlamaGrammar):
            raise InvalidRequestError(f"grammar takes a LlamaGrammar, but {grammar!r} was given")
        if grammar is not None and said["stopping_criteria"] is not None:
            raise UnsupportedError("stopping_criteria is not supported beside grammar, which may allow no end")
        ends = self.llm.info.end_tokens
        stopping = Stopping(said.pop("logits_processor"), said.pop("stopping_criteria"), ends)
        model, seed = said.pop("model"), said.pop("seed")
        said.update(
            own,
            top_k=max(said["top_k"], 0),
            repeat_last_n=64,
            seed=self._random.getrandbits(32) if seed in (None, -1, LLAMA_DEFAULT_SEED) else seed,
            grammar=None if grammar is None else grammar.grammar,
            logit_bias=None if bias is None else {int(token): by for token, by in bias.items()},
            processor=stopping.processor(),
            lora=self._lora,
        )
        return Request(said, stopping, model)

    def _until_sent(self, request: Request) -> Generator[int, Optional[Sequence[int]], Optional[Sequence[int]]]:
        with self.llm.stream(list(self._ids), ignore_eos=True, **request.options) as pieces:
            for piece in pieces:
                at = request.stopping.at
                if piece.token is None or (at is not None and len(self._ids) >= at):
                    return None
                self._ids.append(piece.token)
                sent = yield piece.token
                if sent:
                    return sent
        return None

    def _text_chunks(
        self, head: answers.Head, ids: List[int], shown: str, echo: bool, request: Request
    ) -> Iterator[Answer]:
        with self.llm.stream(ids, **request.options) as pieces:
            self._ids = heard = list(ids)
            if echo:
                yield head.dict(answers.text_choice(shown, None, None))
            yield from answers.text_chunks(head, pieces, self._word, len(shown), heard.append)

    def _logprobs(self, out: Completion, ids: List[int], shown: str, echo: bool) -> Dict[str, Any]:
        scored: List[answers.Scored] = [(one.token, one.logprob, one.top) for one in out.logprobs or []]
        if not echo:
            return answers.text_logprobs(scored, self._word, len(shown))
        first = 1 if ids[:1] == [self.token_bos()] else 0
        rows = answers.scored_rows((out.prompt_logprobs or [])[first:], ids[first:]) + scored
        rows[:1] = [(token, None, None) for token, _, _ in rows[:1]]
        return answers.text_logprobs(rows, self._word, 0)

    def _word(self, token: int) -> str:
        # A part of a character is no text of its own.
        return self.llm.detokenize([token]).replace("\ufffd", "")


def _limit(max_tokens: Optional[int]) -> Optional[int]:
    return None if max_tokens is None or max_tokens <= 0 else max_tokens


def _in_format(said: Dict[str, Any], form: ChatFormat) -> None:
    said["chat_template"] = form.template
    if form.stop is not None:
        stop = said["stop"] or []
        said["stop"] = [*([stop] if isinstance(stop, str) else stop), form.stop]


def _known(call: str, given: Dict[str, Any], table: Dict[str, Any]) -> None:
    unknown = sorted(given.keys() - table.keys())
    if unknown:
        raise TypeError(f"{call} has no argument {', '.join(map(repr, unknown))}")
