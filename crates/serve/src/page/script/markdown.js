"use strict";
// Markdown as DOM nodes. The vendored lexer reads it; the nodes are built here and take text as text, so that markup in
// an answer is shown and never run.
const Markdown = (() => {
  const OPTIONS = { ...marked.getDefaults(), mangle: false };
  const ESCAPED = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
  const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

  // The lexer escapes text for markup; nodes need it as it was.
  const unescaped = (text) => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ESCAPED[entity]);
  const inlines = (tokens) => (tokens ?? []).map(inline).filter((node) => node !== null);
  const wrap = (tag) => (token) => el(tag, {}, ...inlines(token.tokens));

  const INLINE = {
    text: (t) => (t.tokens ? el("span", {}, ...inlines(t.tokens)) : unescaped(t.text)),
    escape: (t) => unescaped(t.text),
    html: (t) => t.text,
    strong: wrap("strong"),
    em: wrap("em"),
    del: wrap("del"),
    codespan: (t) => el("code", {}, unescaped(t.text)),
    br: () => el("br"),
    link: (t) => link(t.href, inlines(t.tokens), t.title),
    // A picture would be fetched from elsewhere: it is a link until somebody asks for it.
    image: (t) => link(t.href, [unescaped(t.text) || "picture"], t.title),
  };

  const BLOCK = {
    space: () => null,
    def: () => null,
    hr: () => el("hr"),
    paragraph: wrap("p"),
    text: (t) => el("span", {}, ...(t.tokens ? inlines(t.tokens) : [unescaped(t.text)])),
    html: (t) => el("p", { className: "plain" }, t.text.trimEnd()),
    heading: (t) => el(`h${Math.min(6, t.depth + 2)}`, {}, ...inlines(t.tokens)),
    blockquote: (t) => el("blockquote", {}, ...blocks(t.tokens)),
    list,
    code: (t) => code(t.text, t.lang),
    table,
  };

  function inline(token) {
    return (INLINE[token.type] ?? ((t) => t.raw))(token);
  }

  function block(token) {
    return (BLOCK[token.type] ?? ((t) => el("p", { className: "plain" }, t.raw)))(token);
  }

  function blocks(tokens) {
    return tokens.map(block).filter((node) => node !== null);
  }

  function link(href, children, title) {
    if (!SAFE_LINK.test(href ?? "")) return el("span", {}, ...children);
    const properties = { href: unescaped(href), target: "_blank", rel: "noopener noreferrer nofollow" };
    return el("a", title ? { ...properties, title: unescaped(title) } : properties, ...children);
  }

  function list(token) {
    const items = token.items.map((item) => {
      const box = item.task && el("input", { type: "checkbox", disabled: true, checked: item.checked });
      return el("li", item.task ? { className: "task" } : {}, box, ...blocks(item.tokens));
    });
    if (!token.ordered) return el("ul", {}, ...items);
    return el("ol", { start: Number(token.start) || (token.start === 0 ? 0 : 1) }, ...items);
  }

  function code(text, language) {
    const name = (language ?? "").trim().split(/\s/)[0];
    const copy = button("Copy", () => copyText(text, copy), { "aria-label": "Copy code" });
    const head = el("div", { className: "code-head" }, el("span", {}, name), copy);
    return el("div", { className: "code" }, head, el("pre", { tabIndex: 0 }, el("code", {}, text)));
  }

  function table(token) {
    const cell = (tag) => (content, column) => {
      const node = el(tag, {}, ...inlines(content.tokens));
      const align = token.align[column];
      if (align) node.className = `to-${align}`;
      return node;
    };
    const head = el("thead", {}, el("tr", {}, ...token.header.map(cell("th"))));
    const rows = token.rows.map((row) => el("tr", {}, ...row.map(cell("td"))));
    // A wide table scrolls by itself and leaves the page as it is.
    return el("div", { className: "scroll", tabIndex: 0 }, el("table", {}, head, el("tbody", {}, ...rows)));
  }

  function lex(text) {
    try {
      return marked.lexer(text, OPTIONS);
    } catch {
      // Thousands of nested quotes end the lexer's stack: such text is shown as it is.
      return [{ type: "html", raw: text, text }];
    }
  }

  // Shows `text` in `container`. Blocks that did not change since the last call stay, so that a long answer that is
  // still being written costs one block each time, and a selection in it is kept.
  function render(container, text) {
    const tokens = lex(text);
    const shown = container.shownBlocks ?? [];
    let same = 0;
    while (same < tokens.length && same < shown.length && shown[same].raw === tokens[same].raw) same++;
    for (const gone of shown.splice(same)) gone.node?.remove();
    for (const token of tokens.slice(same)) {
      const node = block(token);
      if (node) container.append(node);
      shown.push({ raw: token.raw, node });
    }
    container.shownBlocks = shown;
  }

  return { render };
})();
