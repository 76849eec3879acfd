"""Grammars: what a text must look like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple, Union

from . import checks
from ._lamina import Grammar as _Grammar
from .matcher import Matcher
from .errors import InvalidRequestError
from .schema import schema_of

if TYPE_CHECKING:
    from .llm import LLM

_WHITESPACE = ("any", "compact")


class Grammar:
    """What a text must look like; made by one of the class methods, checked whole when it is made.

    What cannot be enforced raises `UnsupportedError` with its keyword and place; nothing is ignored. No model is needed.

    Examples:
        >>> g = lamina.Grammar.from_json_schema({"type": "array", "items": {"type": "integer"}})
        >>> g.matches("[1, 2]"), g.matches("[1.5]")
        (True, False)
    """

    __slots__ = ("_options", "compiled", "kind", "source")

    compiled: _Grammar
    """The binding's value."""
    _options: Dict[str, Any]
    kind: str
    """`json`, `json_schema`, `regex`, `choice`, `gbnf`, `lark` or `structural_tag`."""
    source: str
    """The text that it was made from; JSON for schemas, choices and structural tags."""

    def __init__(self) -> None:
        raise TypeError("make a Grammar with Grammar.from_json_schema, from_regex, from_gbnf, from_lark, from_choice, "
                        "from_structural_tag or json")  # fmt: skip

    @classmethod
    def _make(cls, kind: str, source: str, **options: Any) -> Grammar:
        self = object.__new__(cls)
        self.kind, self.source, self._options = kind, source, options
        if kind == "json":
            self.compiled = _Grammar.json()
        elif kind == "choice":
            self.compiled = _Grammar.choice(json.loads(source))
        else:
            self.compiled = getattr(_Grammar, kind)(source, **options)
        return self

    @classmethod
    def json(cls) -> Grammar:
        """Any JSON object (JSON mode)."""
        return cls._make("json", "")

    @classmethod
    def from_json_schema(
        cls, schema: Any, *, lenient: bool = False, whitespace: str = "any", closed: bool = False
    ) -> Grammar:
        """JSON that satisfies a schema.

        Args:
            schema: a dict, JSON text, a pydantic model or type adapter, or a dataclass.
            lenient: leaves out what cannot be enforced, and lists it in `warnings`, where it would be refused otherwise.
            whitespace: `any` (a space, or a line break and its indent, between tokens) or `compact` (none).
            closed: objects have no members beside those that they name, where the schema does not speak of others: JSON
                Schema lets in any, and a weak model writes them for as long as it may.
        """
        if whitespace not in _WHITESPACE:
            raise InvalidRequestError(f"whitespace must be one of {', '.join(_WHITESPACE)}, not {whitespace!r}")
        source = schema if isinstance(schema, str) else checks.as_json("schema", schema_of(schema))
        compact = whitespace == "compact"
        return cls._make("json_schema", source, lenient=bool(lenient), compact=compact, closed=bool(closed))

    @classmethod
    def from_regex(cls, pattern: str) -> Grammar:
        """Texts that match all of `pattern`, in Rust's syntax: no lookaround, no back references.

        Args:
            pattern: a regular expression.
        """
        return cls._make("regex", pattern)

    @classmethod
    def from_gbnf(cls, text: str) -> Grammar:
        """A grammar in llama.cpp's form, exactly as it is read there; the first rule is `root`.

        Args:
            text: the grammar, GBNF.
        """
        return cls._make("gbnf", text)

    @classmethod
    def from_lark(cls, text: str) -> Grammar:
        """A grammar in llguidance's dialect of Lark; the first rule is `start`.

        Args:
            text: the grammar.
        """
        return cls._make("lark", text)

    @classmethod
    def from_choice(cls, choices: Sequence[str]) -> Grammar:
        """One of these strings, whole.

        Args:
            choices: the strings.
        """
        if isinstance(choices, str) or not all(isinstance(choice, str) for choice in choices):
            raise InvalidRequestError("choices must be a sequence of strings")
        return cls._make("choice", checks.as_json("choices", list(choices)))

    @classmethod
    def from_structural_tag(cls, tag: Union[str, Dict[str, Any]]) -> Grammar:
        """Free text with parts of a given form, as vLLM and xgrammar write it: the old form or the new.

        Args:
            tag: the structural tag, as a dict or as JSON text.
        """
        return cls._make("structural_tag", tag if isinstance(tag, str) else checks.as_json("structural tag", tag))

    def matches(self, text: Union[str, bytes]) -> bool:
        """Whether the whole of `text` satisfies the grammar, in a spelling that an answer could have.

        Args:
            text: a whole text; bytes may end within a character.

        Raises:
            LaminaError: a limit was reached before that was known.
        """
        return self.compiled.matches(_bytes(text))

    def allows(self, prefix: Union[str, bytes]) -> bool:
        """Whether some text that begins with `prefix` may satisfy the grammar.

        Args:
            prefix: the beginning of a text; bytes may end within a character.

        Raises:
            LaminaError: a limit was reached before that was known.
        """
        return self.compiled.allows(_bytes(prefix))

    @property
    def warnings(self) -> List[str]:
        """What was left out because of `lenient`, and formats and keywords that are not known."""
        return self.compiled.warnings()

    def matcher(self, llm: LLM) -> Matcher:
        """This grammar beside one answer of `llm`, for those who sample themselves.

        Args:
            llm: the model whose tokens are meant.
        """
        return Matcher(llm, self)

    def __repr__(self) -> str:
        source = self.source if len(self.source) <= 60 else self.source[:57] + "..."
        return f"Grammar({self.kind}, {source!r})"

    def _key(self) -> Tuple[str, str, Tuple[Tuple[str, Any], ...]]:
        return self.kind, self.source, tuple(sorted(self._options.items()))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Grammar) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __copy__(self) -> Grammar:
        # It never changes.
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> Grammar:
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return _remake, (self.kind, self.source, self._options)


def _remake(kind: str, source: str, options: Dict[str, Any]) -> Grammar:
    return Grammar._make(kind, source, **options)


def _bytes(text: Union[str, bytes]) -> bytes:
    # A lone surrogate is no text: it becomes bytes that no grammar takes.
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
