"use strict";
// Mathematics in Markdown. The vendored library makes MathML of it, which browsers draw with the fonts of the system.
const Formula = (() => {
  const OPTIONS = { output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 1000 };
  // Formulas that are kept: an answer that is being written is drawn many times.
  const KEPT = 500;
  const known = new Map();

  // Where formulas begin and end. Money is none: a dollar that begins one has no blank behind it, and one that ends it has
  // none before it and no digit behind it. Lengths are limited, so that no text takes long to search.
  const INLINE = [
    [/^\$\$(?!\$)([\s\S]{1,2000}?)\$\$/, true],
    [/^\\\[([\s\S]{1,2000}?)\\\]/, true],
    [/^\\\(([\s\S]{1,1000}?)\\\)/, false],
    [/^\$(?![\s$])((?:\\[\s\S]|[^\\$]){1,1000}?)(?<!\s)\$(?![\d$])/, false],
  ];
  const BLOCK = [
    /^ {0,3}\$\$([\s\S]{1,4000}?)\$\$[ \t]*(?:\n+|$)/,
    /^ {0,3}\\\[([\s\S]{1,4000}?)\\\][ \t]*(?:\n+|$)/,
    /^ {0,3}(\\begin\{((?:equation|align|gather|alignat)\*?)\}[\s\S]{1,4000}?\\end\{\2\})[ \t]*(?:\n+|$)/,
  ];

  function found(src, rules, type) {
    for (const [rule, display] of rules) {
      const match = rule.exec(src);
      if (match?.[1].trim()) return { type, raw: match[0], text: match[1].trim(), display };
    }
    return undefined;
  }

  const EXTENSIONS = [
    {
      name: "formula",
      level: "inline",
      start: (src) => find(src, /\$|\\[([]/),
      tokenizer: (src) => found(src, INLINE, "formula"),
    },
    {
      name: "displayed",
      level: "block",
      // Of this paragraph only: the next is asked for itself.
      start: (src) => find(src.split("\n\n", 1)[0], /^ {0,3}(?:\$\$|\\\[|\\begin\{)/m),
      tokenizer: (src) => found(src, BLOCK.map((rule) => [rule, true]), "displayed"),
    },
  ];
  marked.use({ extensions: EXTENSIONS });

  function find(text, rule) {
    const at = text.search(rule);
    return at < 0 ? undefined : at;
  }

  // ---- nodes

  // A formula as a node; one that is wrong is shown as it was written.
  function node({ text, display, raw }) {
    const key = `${display}${text}`;
    let made = known.get(key);
    if (!made) {
      made = build(text, display) ?? el("code", { className: "formula-error", title: "This formula cannot be read." }, raw.trim());
      if (known.size >= KEPT) known.clear();
      known.set(key, made);
    }
    return made.cloneNode(true);
  }

  function build(text, display) {
    try {
      const holder = el("span");
      katex.render(text, holder, { ...OPTIONS, displayMode: display });
      const math = holder.querySelector("math");
      adapt(math);
      return math;
    } catch {
      return null;
    }
  }

  // Letters of a style, as Unicode has them: where its capitals, small letters and digits begin, and those that were there
  // before.
  const STYLES = {
    bold: [0x1d400, 0x1d41a, 0x1d7ce],
    italic: [0x1d434, 0x1d44e, 0, { h: "ℎ" }],
    "bold-italic": [0x1d468, 0x1d482, 0],
    script: [0x1d49c, 0x1d4b6, 0, { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" }],
    fraktur: [0x1d504, 0x1d51e, 0, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }],
    "double-struck": [0x1d538, 0x1d552, 0x1d7d8, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }],
    "sans-serif": [0x1d5a0, 0x1d5ba, 0x1d7e2],
    "bold-sans-serif": [0x1d5d4, 0x1d5ee, 0x1d7ec],
    "sans-serif-bold-italic": [0x1d63c, 0x1d656, 0],
    "sans-serif-italic": [0x1d608, 0x1d622, 0],
    monospace: [0x1d670, 0x1d68a, 0x1d7f6],
  };
  const GREEK = { bold: [0x1d6a8, 0x1d6c2], italic: [0x1d6e2, 0x1d6fc], "bold-italic": [0x1d71c, 0x1d736] };

  function styled(letter, style) {
    const [capital, small, digit, others] = STYLES[style];
    const [greekCapital, greekSmall] = GREEK[style] ?? [];
    const ranges = [["A", "Z", capital], ["a", "z", small], ["0", "9", digit], ["Α", "Ω", greekCapital], ["α", "ω", greekSmall]];
    const range = ranges.find(([first, last, start]) => start && letter >= first && letter <= last);
    if (others?.[letter] || !range) return others?.[letter] ?? letter;
    return String.fromCodePoint(range[2] + letter.codePointAt(0) - range[0].codePointAt(0));
  }

  // Browsers draw MathML Core, which has neither styles of letters nor the columns of tables as attributes.
  function adapt(math) {
    for (const text of math.querySelectorAll("[mathvariant]")) {
      const style = text.getAttribute("mathvariant");
      if (!Object.hasOwn(STYLES, style) || text.childElementCount) continue;
      text.textContent = [...text.textContent].map((letter) => styled(letter, style)).join("");
      text.removeAttribute("mathvariant");
    }
    math.querySelectorAll("mtable").forEach(alignColumns);
    math.tabIndex = 0;
  }

  function alignColumns(table) {
    const words = (name) => (table.getAttribute(name) ?? "").split(/\s+/).filter(Boolean);
    const [sides, gaps] = [words("columnalign"), words("columnspacing")];
    const at = (list, index) => list[Math.min(index, list.length - 1)];
    for (const row of table.children) {
      [...row.children].forEach((cell, column) => {
        if (sides.length) cell.style.textAlign = at(sides, column);
        if (!gaps.length) return;
        cell.style.paddingLeft = column ? `calc(${at(gaps, column - 1)} / 2)` : "0";
        cell.style.paddingRight = column < row.children.length - 1 ? `calc(${at(gaps, column)} / 2)` : "0";
      });
    }
  }

  return { node };
})();
