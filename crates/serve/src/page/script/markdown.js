"use strict";
// Markdown as DOM nodes. The vendored lexer reads it; the nodes are built here and take text as text, so that markup in
// an answer is shown and never run.
const Markdown = (() => {
  const OPTIONS = { ...marked.defaults, mangle: false };
  const ESCAPED = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
  const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
  // Characters of a formula that may be wider than a line, which then scrolls by itself.
  const WIDE = 40;
  // The token at the end of a text that is still being written.
  let writing = null;

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
    formula: (t) => (t.text.length > WIDE ? el("span", { className: "scroll wide" }, Formula.node(t)) : Formula.node(t)),
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
    code,
    displayed: (t) => el("div", { className: "scroll displayed" }, Formula.node(t)),
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

  function code(token) {
    const { text, lang } = token;
    const name = (lang ?? "").trim().split(/\s/)[0];
    const coloured = (token === writing ? Syntax.growing : Syntax.nodes)(text, name);
    const copy = button("Copy", () => copyText(text, copy), { "aria-label": "Copy code" });
    const head = el("div", { className: "code-head" }, el("span", {}, name), copy);
    return el("div", { className: "code" }, head, el("pre", { tabIndex: 0 }, el("code", {}, ...coloured)));
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

  function lastOf(token) {
    const inside = token?.items ?? token?.tokens;
    return inside?.length ? lastOf(inside.at(-1)) : token;
  }

  // Shows `text` in `container`, the end of which is still `open`. Blocks that did not change since the last call stay, so
  // that a long answer that is still being written costs one block each time, and a selection in it is kept.
  function render(container, text, open) {
    const tokens = lex(text);
    const shown = container.shownBlocks ?? [];
    const isOpen = (token) => open && token === tokens.at(-1);
    const stays = (block, token) => block.raw === token.raw && block.open === isOpen(token);
    writing = open ? lastOf(tokens.at(-1)) : null;
    let same = 0;
    while (same < tokens.length && same < shown.length && stays(shown[same], tokens[same])) same++;
    for (const gone of shown.splice(same)) gone.node?.remove();
    for (const token of tokens.slice(same)) {
      const node = block(token);
      if (node) container.append(node);
      shown.push({ raw: token.raw, node, open: isOpen(token) });
    }
    container.shownBlocks = shown;
  }

  return { render };
})();
