"""What notebooks show of answers and plans: HTML that asks nobody for anything."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from .outputs import TokenLogprob

UNLIKELY = 10.0
"""Bits of surprise with the full tint: one token of a thousand."""
BAR = 720
"""Width of a bar."""
COLOURS = ("#2a62bb", "#b84c12", "#0b705a", "#7a4fae", "#856300", "#6d6a63")


def tinted(text: str, words: Optional[List[str]], logprobs: Optional[List[TokenLogprob]], end: str) -> str:
    """An answer, each token tinted by how unlikely it was, where that is known."""
    if words is None or logprobs is None:
        shown = html.escape(text)
    else:
        shown = "".join(_word(word, entry) for word, entry in zip(words, logprobs))
    return f'<div style="white-space:pre-wrap;line-height:1.7">{shown}</div><small>{html.escape(end)}</small>'


def _word(word: str, entry: TokenLogprob) -> str:
    bits = max(0.0, -entry.logprob / math.log(2))
    part = min(bits / UNLIKELY, 1.0)
    title = f"{math.exp(min(entry.logprob, 0.0)):.1%}, {bits:.1f} bits"
    style = f"background:rgba(207,90,24,{0.55 * part:.2f});border-radius:2px"
    return f'<span style="{style}" title="{title}"><bdi>{html.escape(word)}</bdi></span>'


def memory_bar(memory: Dict[str, Any], text: str) -> str:
    """Parts of memory against the budget, above the report."""
    parts = [(name.replace("_", " "), int(size)) for name, size in memory.get("parts", {}).items() if size > 0]
    total, budget = sum(size for _, size in parts), int(memory.get("budget") or 0)
    report = f'<pre style="line-height:1.35">{html.escape(text)}</pre>'
    if total == 0:
        return report
    scale = BAR / max(total, budget)
    pieces, legend, at = [], [], 0.0
    for i, (name, size) in enumerate(parts):
        colour, label = COLOURS[i % len(COLOURS)], f"{html.escape(name)} {_bytes(size)}"
        pieces.append(
            f'<rect x="{at:.1f}" y="14" width="{size * scale:.1f}" height="18" fill="{colour}"><title>{label}</title></rect>'
        )
        legend.append(f'<span style="white-space:nowrap"><span style="color:{colour}">■</span> {label}</span>')
        at += size * scale
    mark = ""
    if budget > 0:
        end = min(budget * scale, BAR)
        mark = (
            f'<path d="M{end:.1f} 10V36" stroke="currentColor" stroke-width="1.5"/>'
            f'<text x="{end:.1f}" y="9" text-anchor="end" fill="currentColor" font-size="11">budget {_bytes(budget)}</text>'
        )
    label = f"memory: {_bytes(total)} of {_bytes(budget)}" if budget > 0 else f"memory: {_bytes(total)}"
    bar = (
        f'<svg viewBox="0 0 {BAR} 40" width="100%" style="max-width:{BAR}px" role="img" aria-label="{label}">'
        f"{''.join(pieces)}{mark}</svg>"
    )
    return f'{bar}<div style="display:flex;flex-wrap:wrap;gap:0 1rem">{"".join(legend)}</div>{report}'


def _bytes(size: int) -> str:
    value, units = float(size), ["B", "KB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 10 else f"{value:.1f} {units[0]}"
