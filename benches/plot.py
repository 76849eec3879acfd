#!/usr/bin/env python3
"""Figures of the documentation, drawn from `benches/record`; `python docs/pages.py` writes them beside the pages.

    python benches/plot.py benches/record/peers.jsonl peers.svg      # the same for a record of one's own

Beside a peer only ratios are drawn, which were taken in turn in one run: tokens a second of different runs say how busy a machine was.
"""

import json
import math
import sys
from html import escape
from pathlib import Path

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 250, 40, 22, 66
STYLE = (
    ":root{color-scheme:light dark}svg{--card:light-dark(#fff,#191b20);--ink:light-dark(#1d1c1a,#ecebe6);--faint:light-dark(#6a665e,#a19e96);"
    "--line:light-dark(#e2ded3,#30323a);--a:light-dark(#2a62bb,#7fb0f5);--b:light-dark(#bf4f12,#f4975c)}"
    "text{font:12px Inter,system-ui,sans-serif;fill:var(--ink)}.f{font-size:11px;fill:var(--faint)}.t{font-size:14px;font-weight:600}"
    ".g{fill:var(--card)}.l{stroke:var(--line)}.one{stroke:var(--ink);stroke-width:1.5}.a{fill:var(--a);stroke:var(--a)}.b{fill:var(--b);stroke:var(--b)}"
)


class Dots:
    """A figure of a dot and its range for each row, on one axis."""

    def __init__(self, title, conditions, rows, marks, scale, colours):
        self.height = TOP + ROW * rows + 40
        self.rows, self.scale = rows, scale
        self.body = [f'<rect class="g" width="{WIDTH}" height="{self.height}"/>']
        self.text(12, 22, title, "t")
        self.text(12, 40, conditions, "f")
        at = LEFT
        for kind, word in colours.items():
            self.body.append(f'<circle class="{kind}" cx="{at}" cy="52" r="4"/>')
            self.text(at + 9, 56, word, "f")
            at += 40 + 7 * len(word)
        for value, word in marks:
            self.line(self.x(value), TOP, self.x(value), self.height - 34, "one" if word == "1" else "l")
            self.text(self.x(value), self.height - 18, word, "f", "middle")

    def x(self, value):
        """Where a value stands."""
        return LEFT + self.scale(value) * (WIDTH - LEFT - RIGHT)

    def y(self, row):
        """Where a row stands."""
        return TOP + ROW * (row + 0.5)

    def text(self, x, y, text, kind="", anchor="start"):
        """Words."""
        self.body.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, x, y, to_x, to_y, kind):
        """A line."""
        self.body.append(f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>')

    def dot(self, row, figures, kind, tip, shift=0.0):
        """The middle as a dot, the range as a line."""
        y, (least, most) = self.y(row) + shift, figures["range"]
        self.line(self.x(least), y, self.x(most), y, kind)
        circle = f'<circle class="{kind}" cx="{self.x(figures["median"]):.1f}" cy="{y:.1f}" r="3.5"><title>{escape(tip)}</title></circle>'
        self.body.append(circle)

    def svg(self, label):
        """The file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" role="img" aria-label="{escape(label)}">'
        return f"{head}<style>{STYLE}</style>{''.join(self.body)}</svg>\n"


def newest(rows, key):
    """Of lines about the same thing the last one."""
    return list({key(row): row for row in rows}.values())


def name(row):
    """What was measured."""
    depth = f", behind {row['depth']}" if row["depth"] else ""
    batch = f", {row['batch']} at once" if row["batch"] > 1 else ""
    return f"{Path(row['model']).stem}{depth}{batch}"


def conditions(rows, peers=True):
    """Machine and dates of lines, and versions of what stood beside them."""
    dates = sorted(row["date"][:10] for row in rows if row.get("date"))
    machines = sorted({row.get("cpu") or row.get("machine") or "" for row in rows} - {""})
    beside = sorted({row["peer"].replace("_", "-") for row in rows if row.get("peer") and peers})
    when = f"up to {dates[-1]}" if dates else "before dates were kept"
    how = "each ratio in turn, in one run" if peers else "bandwidth measured beside each"
    return ", ".join([*machines, *beside, when, how])


def peers(rows):
    """Ratios beside a peer: 1 is as fast, and twice as far on either side is twice as fast."""
    rows = [row for row in newest(rows, lambda r: (r["model"], r["depth"], r["batch"])) if both(row)]
    ends = [figure for row in rows for part in ("prefill", "decode") for figure in row[part]["ratio"]["range"]]
    # At least from half to twice, so that 1 is inside.
    low, high = math.floor(math.log2(min(ends + [0.5]))), math.ceil(math.log2(max(ends + [2.0])))
    marks = [(2.0**power, f"{2.0**power:g}") for power in range(low, high + 1)]
    scale = lambda value: (math.log2(value) - low) / (high - low)  # noqa: E731
    figure = Dots("Times as fast as llama.cpp", conditions(rows), len(rows), marks, scale, {"a": "prompts", "b": "answers"})
    for i, row in enumerate(rows):
        figure.text(LEFT - 10, figure.y(i) + 4, name(row), "", "end")
        for part, kind, shift in (("prefill", "a", -3.5), ("decode", "b", 3.5)):
            ratio = row[part]["ratio"]
            figure.dot(i, ratio, kind, f"{name(row)}: {ratio['median']:.2f}, {ratio['range'][0]:.2f} to {ratio['range'][1]:.2f}", shift)
    return figure.svg("Ratios of speeds beside llama.cpp with their ranges, a row for each model")


def both(row):
    """A line has ratios of prompts and of answers."""
    return all(row.get(part) and row[part].get("ratio") for part in ("prefill", "decode"))


def limits(rows):
    """Which part of the memory's bandwidth answers had."""
    rows = newest(rows, lambda r: (r["model"], r["depth"], r["batch"]))
    rows = [row for row in rows if row.get("decode_bandwidth_share") and row["batch"] == 1 and row["depth"] == 0]
    most = max([1.0, *(row["decode_bandwidth_share"]["range"][1] for row in rows)])
    marks = [(part / 5, "1" if part == 5 else f"{part / 5:g}") for part in range(6)]
    colours = {"b": "part of what memory can give, which is 1"}
    figure = Dots("How near answers are to the memory's limit", conditions(rows, peers=False), len(rows), marks, lambda value: value / most, colours)
    for i, row in enumerate(rows):
        share = row["decode_bandwidth_share"]
        figure.text(LEFT - 10, figure.y(i) + 4, name(row), "", "end")
        figure.dot(i, share, "b", f"{name(row)}: {share['median']:.2f}, {share['range'][0]:.2f} to {share['range'][1]:.2f}")
    return figure.svg("Part of the bandwidth that answers had, with its range, a row for each model")


FIGURES = {"measured-peers.svg": peers, "measured-limits.svg": limits}


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    target.write_text((limits if "limit" in target.stem else peers)(lines))
