"""A grammar beside one answer, for those who sample themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._lamina import Matcher as _Matcher

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .grammar import Grammar
    from .llm import LLM


class Matcher:
    """Which tokens of a model may come next, and what happens when one does. `Grammar.matcher` makes it.

    Examples:
        >>> matcher = lamina.Grammar.from_choice(["yes", "no"]).matcher(llm)
        >>> while not matcher.finished:
        ...     matcher.accept(my_choice(matcher.mask()))
    """

    __slots__ = ("_matcher",)

    def __init__(self, llm: LLM, grammar: Grammar) -> None:
        self._matcher = llm._model.matcher(grammar.compiled)

    @classmethod
    def _of(cls, matcher: _Matcher) -> Matcher:
        self = object.__new__(cls)
        self._matcher = matcher
        return self

    def mask(self) -> NDArray[np.uint32]:
        """A bit for each token that may come next, the lowest first: uint32 [tokens / 32, rounded up].

        Raises LaminaError when no token may.
        """
        return self._matcher.mask()

    def allows(self, token: int) -> bool:
        """Whether this token may come next. Where text is forced, any spelling of it may.

        Args:
            token: its id.
        """
        return self._matcher.allows(token)

    def accept(self, token: int) -> None:
        """Takes the next token; raises InvalidRequestError, and changes nothing, when it may not come here.

        Args:
            token: its id.
        """
        self._matcher.accept(token)

    def forced(self) -> List[int]:
        """Tokens that must come next in any case; they are not accepted yet."""
        return self._matcher.forced()

    def legal(self, tokens: List[int]) -> int:
        """How many of these tokens may come in turn; none is accepted.

        Args:
            tokens: their ids.
        """
        return self._matcher.legal(tokens)

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens.

        Args:
            count: how many, of those that were accepted.
        """
        self._matcher.rollback(count)

    @property
    def finished(self) -> bool:
        """Whether nothing may follow: an end token was accepted, or the text is whole."""
        return self._matcher.finished()

    @property
    def accepting(self) -> bool:
        """Whether the text so far satisfies the grammar as it is."""
        return self._matcher.accepting()

    def fork(self) -> Matcher:
        """A copy that goes its own way."""
        return Matcher._of(self._matcher.fork())

    def __copy__(self) -> Matcher:
        return self.fork()

    def __deepcopy__(self, memo: Any) -> Matcher:
        return self.fork()
