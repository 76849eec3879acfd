"use strict";
// What stands on the page before anything was said: which model answers, and what one might ask it.
const Greeting = (() => {
  const PROMPTS = [
    "Explain in three sentences how a rainbow comes about.",
    "Write a short poem about the sea in winter.",
    "Give me a plan for a rainy Sunday afternoon.",
  ];
  const STORIES = [
    "Once upon a time, there was a little dog.",
    "Tell me a story about a girl who found a red ball.",
    "One day, a cat and a bird went to the park.",
  ];

  // `7.2B`, `260K`.
  function count(number) {
    const units = [[1e9, "B"], [1e6, "M"], [1e3, "K"]];
    const [size, unit] = units.find(([size]) => number >= size) ?? [1, ""];
    const shown = number / size;
    return `${shown >= 100 || unit === "" ? Math.round(shown) : Number(shown.toFixed(1))}${unit}`;
  }

  function bytes(number) {
    const units = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
    const [size, unit] = units.find(([size]) => number >= size) ?? [1, "bytes"];
    return `${Number((number / size).toFixed(1))} ${unit}`;
  }

  // Size, type and context of a model in one line, as far as they are known.
  function facts(model) {
    const meta = model?.meta;
    if (!meta) return model?.status?.value === "loaded" ? "" : "It is loaded with the first message.";
    const context = meta.n_ctx || meta.n_ctx_train;
    const parts = [
      meta.n_params && `${count(meta.n_params)} parameters`,
      meta.type_name,
      meta.size && bytes(meta.size),
      context && `context of ${context.toLocaleString("en")} tokens`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  // Fills `node`; `ask` sends a prompt.
  function draw(node, model, ask) {
    const packaged = Boolean(model?.about);
    const prompts = (packaged ? STORIES : PROMPTS).map((text) => el("li", {}, button(text, () => ask(text))));
    node.replaceChildren(
      el("h2", {}, model?.id ?? "Lamina"),
      el("p", { className: "facts" }, facts(model)),
      packaged && el("p", { className: "about" }, model.about),
      el("ul", { "aria-label": "Prompts to try" }, ...prompts),
    );
  }

  return { draw, facts };
})();
