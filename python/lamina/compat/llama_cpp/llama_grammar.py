"""Grammars, under the name that programs import them from."""

from .parts import LlamaGrammar

__all__ = ["LlamaGrammar"]
