"""Forms of prompts, under the name that programs import them from."""

from .params import TextPrompt, TokensPrompt

__all__ = ["TextPrompt", "TokensPrompt"]
