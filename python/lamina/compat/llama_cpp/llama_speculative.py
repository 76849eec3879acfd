"""Drafts, under the name that programs import them from."""

from .parts import LlamaPromptLookupDecoding

__all__ = ["LlamaPromptLookupDecoding"]
