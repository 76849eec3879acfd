"""Lamina as a model of lm-eval, EleutherAI's harness: `pip install lm-eval`.

On its command line, with its own flags: ``python -m lamina.eval run --model lamina --model_args pretrained=model.gguf
--tasks ..``. In Python `lm_eval.simple_evaluate(model=LaminaLM("model.gguf"), tasks=[..])`, or by the name `lamina` once
this module is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Dict, List, Optional, Tuple, Union

from .llm import LLM
from .types import Path

if importlib.util.find_spec("lm_eval"):
    TemplateLM: Any = importlib.import_module("lm_eval.api.model").TemplateLM
    register_model: Any = importlib.import_module("lm_eval.api.registry").register_model
    _model_utils: Any = importlib.import_module("lm_eval.models.utils")
    _utils: Any = importlib.import_module("lm_eval.utils")
else:
    TemplateLM, register_model = object, lambda _name: lambda model: model

_Scores = List[Tuple[float, bool]]


@register_model("lamina")
class LaminaLM(TemplateLM):  # type: ignore[misc]
    """A model for lm-eval's tasks. All requests of a call run as one batch, and contexts that several choices share are
    computed once.
    """

    def __init__(
        self,
        pretrained: Union[LLM, Path, None] = None,
        max_gen_toks: int = 256,
        add_bos_token: Optional[bool] = None,
        batch_size: Any = None,
        max_batch_size: Any = None,
        device: Optional[str] = None,
        max_length: Optional[int] = None,
        lora: Any = None,
        **options: Any,
    ) -> None:
        """Loads a model.

        pretrained: an `LLM`, or what `LLM` loads; None: the small model inside the package.
        max_gen_toks: tokens of an answer where a task does not say.
        add_bos_token: whether prompts begin with the model's beginning token; None: as the model wants.
        batch_size, max_batch_size: accepted and not needed: requests share steps whatever their number.
        device, max_length: `device` and `context` of `LLM`.
        lora: adapters that all requests use, as for `LLM.generate`.
        options: those of `LLM`.
        """
        if TemplateLM is object:
            raise ImportError("lamina.eval needs the package lm-eval: pip install lm-eval")
        super().__init__()
        if isinstance(pretrained, LLM):
            if options:
                raise ValueError(f"the model is loaded already: {', '.join(options)} cannot be set")
            self.llm = pretrained
        else:
            # lm-eval's command line says cuda:0 where nobody asked for it: the first GPU that there is, or else none.
            place: Dict[str, Any] = {} if device in (None, "mps", "cuda", "cuda:0") else {"device": device}
            self.llm = LLM(pretrained, context=max_length, **place, **options)
        self._lora = lora
        self.max_gen_toks = max_gen_toks
        plain, special = self.llm.tokenize("a"), self.llm.tokenize("a", special=True)
        self._bos = special[0] if special[:1] != plain[:1] else None
        self.add_bos_token = self._bos is not None if add_bos_token is None else add_bos_token

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence."""
        return self.llm.info.context

    @property
    def eot_token_id(self) -> int:
        """The token that ends an answer."""
        ends = self.llm.info.end_tokens
        if not ends:
            raise ValueError("the model has no token that ends an answer")
        return ends[0]

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text without a context: the beginning token, or else the one that ends."""
        return self.eot_token_id if self._bos is None else self._bos

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return str(self.llm.info.path).replace("/", "__")

    def chat_template(self, chat_template: Union[bool, str] = False) -> str:
        """The model applies its own; lm-eval keeps the name beside its results."""
        return self.llm.info.path if chat_template else ""

    def apply_chat_template(self, chat_history: List[Dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text that a conversation becomes."""
        return self.llm.apply_chat_template(chat_history, add_generation_prompt=add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **kwargs: Any) -> List[int]:
        """Ids of a text, behind the beginning token where prompts have one and the text does not begin so."""
        ids = self.llm.tokenize(string)
        wanted = self.add_bos_token if add_special_tokens is None else add_special_tokens
        return [self._bos, *ids] if wanted and self._bos is not None and ids[:1] != [self._bos] else ids

    def tok_decode(self, tokens: List[int], **kwargs: Any) -> str:
        """Text of ids."""
        return self.llm.detokenize(tokens)

    def _loglikelihood_tokens(self, requests: List[Any], **kwargs: Any) -> _Scores:
        """Scores of continuations behind contexts, which lose their beginning where both are too long."""
        contexts, continuations = [], []
        for _, context, continuation in requests:
            if len(continuation) >= self.max_length:
                what = f"a continuation has {len(continuation)} tokens, the model holds {self.max_length} with a context"
                raise ValueError(f"{what}: give a longer max_length")
            contexts.append(list(context)[-(self.max_length - len(continuation)) :])
            continuations.append(list(continuation))
        if not contexts:
            return []
        scores: Any = self.llm.score(contexts, continuations, lora=self._lora)
        results = [(score.logprob, score.greedy) for score in scores]
        for (key, _, _), result in zip(requests, results):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, result)
        return results

    def loglikelihood_rolling(self, requests: List[Any], disable_tqdm: bool = False) -> List[float]:
        """Log-likelihoods of whole texts, in windows with as much before each token as the model holds."""
        rows: List[Any] = []
        counts = []
        for (text,) in (request.args for request in requests):
            windows = _utils.get_rolling_token_windows(
                token_list=self.tok_encode(text, add_special_tokens=False),
                prefix_token=self.prefix_token_id,
                # A window is scored with one token more, the last that it predicts.
                max_seq_len=self.max_length - 1,
                context_len=1,
            )
            pairs = [_utils.make_disjoint_window(window) for window in windows]
            rows += [(None, context, continuation) for context, continuation in pairs]
            counts.append(len(pairs))
        scores = iter(self._loglikelihood_tokens(rows))
        sums = [sum(next(scores)[0] for _ in range(count)) for count in counts]
        for request, total in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return sums

    def generate_until(self, requests: List[Any], disable_tqdm: bool = False) -> List[str]:
        """Answers up to a text that ends them, which is not part of them; all requests of the same options as one batch."""
        answers: List[Optional[str]] = [None] * len(requests)
        groups: Dict[str, List[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(repr(request.args[1]), []).append(i)
        for places in groups.values():
            options, until = self._generation(requests[places[0]].args[1])
            room = self.max_length - options["max_tokens"]
            if room < 1:
                raise ValueError(f"max_gen_toks is {options['max_tokens']}, but the model holds {self.max_length} tokens")
            prompts = [self.tok_encode(requests[i].args[0])[-room:] for i in places]
            for i, answer in zip(places, self.llm.generate(prompts, **options)):
                answers[i] = text = _cut(answer.text, until)
                self.cache_hook.add_partial("generate_until", requests[i].args, text)
        return [answer or "" for answer in answers]

    def _generation(self, given: Dict[str, Any]) -> Tuple[Dict[str, Any], List[str]]:
        """A task's options in our names, and the texts that end an answer."""
        asked = _model_utils.normalize_gen_kwargs(dict(given), default_max_gen_toks=self.max_gen_toks)
        until = [text for text in asked.pop("until", None) or [] if text]
        sampled, temperature = asked.pop("do_sample", None), asked.pop("temperature", 0.0)
        options = {"max_tokens": asked.pop("max_gen_toks"), "temperature": temperature if sampled or sampled is None else 0.0}
        known = ("top_p", "top_k", "min_p", "seed", "repetition_penalty", "frequency_penalty", "presence_penalty")
        options.update((name, asked.pop(name)) for name in known if name in asked)
        if asked:
            raise ValueError(f"generation_kwargs that Lamina does not know: {', '.join(sorted(asked))}")
        return {**options, "stop": until, "lora": self._lora}, until


def _cut(text: str, until: List[str]) -> str:
    """Where a text that ends an answer is a beginning of another one, the engine has left the rest."""
    for end in until:
        text = text.split(end)[0]
    return text


def main() -> None:
    """lm-eval's command line, which knows the model `lamina`."""
    importlib.import_module("lm_eval.__main__").cli_evaluate()


if __name__ == "__main__":
    main()
