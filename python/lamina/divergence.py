"""How far a model's probabilities are from those of its base."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, List, NamedTuple


class TokenDivergence(NamedTuple):
    """What two models say of one token of a text."""

    token: int
    """Its id."""
    kl: float
    """KL divergence of the model's distribution from the base's, in nats."""
    base_logprob: float
    """Natural logarithm of the token's probability to the base."""
    logprob: float
    """The same to the model."""
    same_top: bool
    """Both find the same token the likeliest."""


@dataclass(frozen=True)
class Divergence:
    """The figures that quantizers publish, by llama.cpp's definitions. Names that end in `_error` are standard errors.

    Examples:
        >>> lamina.LLM("model-Q4_K_M.gguf").divergence(lamina.LLM("model-F16.gguf"), text).kl
    """

    tokens: int
    """Tokens that were compared."""
    kl: float
    """Mean KL divergence of the model from the base, in nats: the mean of the sums of `p ln(p / q)`, p being the base's."""
    kl_error: float
    """Standard error of `kl`."""
    kl_bound: float
    """How far the mean may be off by what was left out; 0: rows were compared whole."""
    kl_median: float
    """Half of the tokens have less."""
    kl_90: float
    """Nine of ten tokens have less."""
    kl_99: float
    """99 of 100 tokens have less."""
    kl_999: float
    """999 of 1000 tokens have less."""
    kl_max: float
    """The most of a token."""
    kl_min: float
    """The least of a token."""
    delta_p: float
    """Mean change of the probability of the text's tokens, from the base to the model."""
    delta_p_error: float
    """Standard error of `delta_p`."""
    delta_p_rms: float
    """Root of the mean square of that change."""
    delta_p_rms_error: float
    """Standard error of `delta_p_rms`."""
    same_top: float
    """Share of the tokens for which both models find the same token the likeliest."""
    same_top_error: float
    """Standard error of `same_top`."""
    ppl: float
    """Perplexity of the model."""
    ppl_error: float
    """Standard error of `ppl`."""
    base_ppl: float
    """Perplexity of the base."""
    base_ppl_error: float
    """Standard error of `base_ppl`."""
    ln_ppl_ratio: float
    """Natural logarithm of `ppl / base_ppl`."""
    ln_ppl_ratio_error: float
    """Standard error of `ln_ppl_ratio`."""
    correlation: float
    """Correlation of both models' logprobs of the text's tokens."""
    by_token: List[TokenDivergence] = field(repr=False)
    """Each token that was compared, in the order of the text."""

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row for each token: token, kl, base_logprob, logprob, same_top."""
        return importlib.import_module("pandas").DataFrame(self.by_token, columns=list(TokenDivergence._fields))
