"""What llama-cpp-python's calls take and give beside text: grammars, functions on logits, states, caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedError
from ...grammar import Grammar
from ...types import Path, Processor

if TYPE_CHECKING:
    from .llama import Llama

LogitsProcessor = Callable[[NDArray[np.intc], NDArray[np.float32]], Any]
"""Returns the row of logits to sample from, given the tokens so far and the model's row."""
StoppingCriterion = Callable[[NDArray[np.intc], NDArray[np.float32]], bool]
"""Whether the answer ends before the next token, given the tokens so far and the row of logits behind them."""


class LlamaGrammar:
    """What an answer must look like. `verbose` changes nothing: what is wrong with a grammar is an error."""

    def __init__(self, *, _grammar: str = "", _of: Optional[Grammar] = None) -> None:
        self.grammar = _of or Grammar.from_gbnf(_grammar)

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        """A grammar in GBNF."""
        return cls(_of=Grammar.from_gbnf(grammar))

    @classmethod
    def from_file(cls, file: Path, verbose: bool = True) -> LlamaGrammar:
        """A file with a grammar in GBNF."""
        return cls.from_string(File(file).read_text(encoding="utf-8"))

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar:
        """JSON that satisfies a schema, which is given as JSON text; objects have no members beside those it names."""
        return cls(_of=Grammar.from_json_schema(json_schema, closed=True))


def closed_form(response_format: Optional[Dict[str, Any]]) -> Optional[Grammar]:
    """The form that a chat's `response_format` asks for by a schema, closed as llama.cpp does; None where it has none."""
    said = response_format or {}
    named = said.get("json_schema") if said.get("type") == "json_schema" else said
    schema = named.get("schema") if isinstance(named, dict) else None
    return None if schema is None else Grammar.from_json_schema(schema, closed=True)


class LogitsProcessorList(List[LogitsProcessor]):
    """Functions that change a row of logits, one after the other."""

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.float32]) -> NDArray[np.float32]:
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(List[StoppingCriterion]):
    """Functions each of which may end an answer."""

    def __call__(self, input_ids: NDArray[np.intc], logits: NDArray[np.float32]) -> bool:
        return any(criterion(input_ids, logits) for criterion in self)


class Stopping:
    """A `processor` of `LLM.generate` that runs processors and criteria of llama-cpp-python.

    Where the criteria end the answer, an end token is the only one left: `at` is then the number of tokens before it.
    """

    def __init__(self, change: Any, stop: Any, end_tokens: List[int]) -> None:
        if stop is not None and not end_tokens:
            raise UnsupportedError("stopping_criteria needs a model with an end token, and this one has none")
        self._change = LogitsProcessorList(change) if isinstance(change, (list, tuple)) else change
        self._stop = StoppingCriteriaList(stop) if isinstance(stop, (list, tuple)) else stop
        self._end_tokens = end_tokens
        self.at: Optional[int] = None

    def processor(self) -> Optional[Processor]:
        """None where there is nothing to run."""
        return None if self._change is None and self._stop is None else self

    def __call__(self, tokens: NDArray[np.uint32], row: NDArray[np.float32]) -> None:
        ids = tokens.astype(np.intc)
        if self._stop is not None and (self.at is not None or self._stop(ids, row)):
            self.at = len(ids) if self.at is None else self.at
            row[:] = -np.inf
            row[self._end_tokens[0]] = 0
        elif self._change is not None:
            row[:] = self._change(ids, row)


class LlamaRAMCache:
    """Changes nothing: beginnings that were computed before are always found again in memory."""

    def __init__(self, capacity_bytes: int = 2 << 30) -> None:
        self.capacity_bytes = capacity_bytes


class LlamaDiskCache(LlamaRAMCache):
    """Changes nothing: `lamina.LLM(cache_dir=..)` keeps beginnings on disk, and is an option of loading."""

    def __init__(self, cache_dir: str = ".cache/llama_cache", capacity_bytes: int = 2 << 30) -> None:
        super().__init__(capacity_bytes)
        self.cache_dir = cache_dir


LlamaCache = LlamaRAMCache


class LlamaPromptLookupDecoding:
    """Guesses tokens from the text so far; how many follows what pays, whatever the arguments say."""

    def __init__(self, max_ngram_size: int = 2, num_pred_tokens: int = 10) -> None:
        self.max_ngram_size, self.num_pred_tokens = max_ngram_size, num_pred_tokens


@dataclass(frozen=True)
class LlamaState:
    """What `Llama.save_state` keeps; it can be pickled."""

    input_ids: List[int]
    llama_state: bytes
    """A file of `LLM.save_state`; empty where nothing was computed."""

    @property
    def n_tokens(self) -> int:
        """Tokens of the text."""
        return len(self.input_ids)

    @property
    def llama_state_size(self) -> int:
        """Bytes of what was computed."""
        return len(self.llama_state)


class LlamaTokenizer:
    """The tokenizer of a model."""

    def __init__(self, llama: Llama) -> None:
        self._llama = llama

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> List[int]:
        """Token ids of UTF-8 text."""
        return self._llama.tokenize(text, add_bos, special)

    def detokenize(self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False) -> bytes:
        """UTF-8 text of token ids."""
        return self._llama.detokenize(tokens, prev_tokens, special)

    def encode(self, text: str, add_bos: bool = True, special: bool = True) -> List[int]:
        """Token ids of text."""
        return self.tokenize(text.encode("utf-8"), add_bos, special)

    def decode(self, tokens: List[int]) -> str:
        """Text of token ids."""
        return self.detokenize(tokens).decode("utf-8")


def hub_name(repo_id: str, filename: Optional[str]) -> str:
    """The `hf:` name of a file of the hub, of the one whose name ends as `*` and the rest of `filename` say, or of any."""
    if filename is None:
        return f"hf:{repo_id}"
    pattern = filename.startswith("*")
    rest = filename[1:] if pattern else filename
    if any(sign in rest for sign in "*?["):
        raise UnsupportedError(f"filename={filename!r} is not supported: a pattern is * and the end of a name")
    return f"hf:{repo_id}:{rest.removesuffix('.gguf').lstrip('-._')}" if pattern else f"hf:{repo_id}/{rest}"
