"use strict";
// Colours of code. The vendored lexer cuts it into tokens; the nodes are built here, so that code stays text.
const Syntax = (() => {
  // Nothing on the page is coloured unless it is asked for.
  Prism.manual = true;
  // Longer code stays plain.
  const MOST = 100000;
  // Names that models write and the lexer does not know.
  const NAMES = { "c++": "cpp", "c#": "csharp", rs: "rust", golang: "go", zsh: "bash", console: "bash", jsonc: "json", jsx: "javascript", tsx: "typescript", mjs: "javascript", ps1: "powershell", h: "c", hpp: "cpp", make: "makefile", conf: "ini", vue: "markup", patch: "diff" };
  const KINDS = {
    comment: "comment prolog doctype cdata shebang",
    string: "string char regex url attr-value template-string triple-quoted-string inserted inserted-sign heredoc",
    number: "number boolean constant symbol null nil variable atrule date time",
    keyword: "keyword tag selector important directive rule deleted deleted-sign operator-keyword",
    name: "function class-name builtin macro annotation attribute attr-name property key decorator function-definition table coord section",
  };
  const COLOURS = Object.fromEntries(Object.entries(KINDS).flatMap(([colour, kinds]) => kinds.split(" ").map((kind) => [kind, colour])));

  function grammarOf(language) {
    const name = language.toLowerCase();
    const known = Object.hasOwn(NAMES, name) ? NAMES[name] : name;
    const grammar = Object.hasOwn(Prism.languages, known) ? Prism.languages[known] : null;
    return typeof grammar === "object" ? grammar : null;
  }

  // Inner tokens first: a string in a tag has the colour of strings.
  function nodeOf(token) {
    if (typeof token === "string") return [token];
    const inside = [token.content].flat().flatMap(nodeOf);
    const colour = [token.type, token.alias].flat().find((kind) => Object.hasOwn(COLOURS, kind));
    return colour ? [el("span", { className: `code-${COLOURS[colour]}` }, ...inside)] : inside;
  }

  // The nodes of code: spans with colours, and text. They are kept, since a list with code in it is drawn whenever it grows.
  const KEPT = 100;
  const known = new Map();
  function nodes(text, language) {
    const key = `${language}\n${text}`;
    if (!known.has(key)) {
      if (known.size >= KEPT) known.clear();
      known.set(key, coloured(text, language));
    }
    return known.get(key).map((node) => node.cloneNode?.(true) ?? node);
  }

  function coloured(text, language) {
    const grammar = text.length <= MOST ? grammarOf(language) : null;
    if (!grammar) return [text];
    try {
      return Prism.tokenize(text, grammar).flatMap(nodeOf);
    } catch {
      // Thousands of nested brackets end the lexer's stack.
      return [text];
    }
  }

  // The nodes of code that is still being written. They are made anew when it has grown by a quarter, so that a long answer
  // costs a few times what its end costs; what has come since is plain.
  let grown = { text: "", language: "", nodes: [] };
  function growing(text, language) {
    const goesOn = language === grown.language && text.startsWith(grown.text);
    if (!goesOn || text.length > 1.25 * grown.text.length + 64) grown = { text, language, nodes: coloured(text, language) };
    return [...grown.nodes, text.slice(grown.text.length)];
  }

  return { nodes, growing };
})();
