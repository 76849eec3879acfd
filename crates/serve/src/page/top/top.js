"use strict";
// What a server does now: one stream of samples, a second apart, drawn as they come. Text enters as text only.
const Top = (() => {
  const SAMPLES = 600;
  const AGAIN = 3000;
  const SVG = "http://www.w3.org/2000/svg";
  let names = [];
  let lines = [];
  let newest = null;

  const byId = (id) => document.getElementById(id);

  function el(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    Object.assign(node, properties);
    node.append(...children);
    return node;
  }

  function number(value) {
    if (value === null || value === undefined) return "–";
    if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
    if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
    if (value >= 1e4) return `${Math.round(value / 1e3)} k`;
    return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
  }

  function bytes(value) {
    const units = ["B", "KB", "MB", "GB", "TB"];
    let unit = 0;
    while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
    return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  }

  function time(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds === 0) return "0 s";
    if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
    if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
    if (seconds < 100) return `${seconds.toFixed(1)} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 100) return `${minutes} min`;
    return seconds < 2 * 86400 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
  }

  const percent = (part) => (part === null || part === undefined ? "–" : `${Math.round(part * 100)} %`);

  // A round number that is not below `most`.
  function ceiling(most) {
    if (!(most > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(most));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
  }

  const column = (name) => {
    const at = names.indexOf(name);
    return lines.map((line) => line[at]);
  };

  function shape(parent, tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
  }

  // Pieces of a line: where there is no number there is none.
  function path(values, most, box) {
    let out = "";
    let open = false;
    values.forEach((value, i) => {
      const there = value !== null && value !== undefined;
      if (there) {
        const x = box.x + ((SAMPLES - values.length + i) / (SAMPLES - 1)) * box.w;
        const y = box.y + box.h - (Math.min(value, most) / most) * box.h;
        out += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      }
      open = there;
    });
    return out;
  }

  // Lines of ten minutes with their names at their right ends.
  // `least`: what the axis reaches in any case.
  function chart(id, series, unit, goal, least) {
    const svg = byId(id);
    const width = Math.max(260, svg.parentNode.clientWidth);
    const box = { x: 52, y: 14, w: width - 52 - 86, h: 74 };
    svg.setAttribute("viewBox", `0 0 ${width} 108`);
    svg.replaceChildren();
    const values = series.map((s) => s.values);
    const most = ceiling(Math.max(goal ?? 0, least ?? 0, ...values.flat().filter((v) => v !== null && v !== undefined)));
    for (const part of [0, 0.5, 1]) {
      const y = box.y + box.h * (1 - part);
      shape(svg, "line", { class: "grid", x1: box.x, x2: box.x + box.w, y1: y, y2: y });
      shape(svg, "text", { x: box.x - 6, y: y + 4, "text-anchor": "end" }, unit(most * part));
    }
    for (const [label, anchor, x] of [["10 min ago", "start", box.x], ["now", "end", box.x + box.w]]) {
      shape(svg, "text", { x, y: box.y + box.h + 16, "text-anchor": anchor }, label);
    }
    if (goal) {
      const y = box.y + box.h * (1 - goal / most);
      shape(svg, "line", { class: "goal", x1: box.x, x2: box.x + box.w, y1: y, y2: y });
    }
    const ends = series.map((s, i) => ({ ...s, i, y: box.y + box.h * (1 - Math.min(s.values.at(-1) ?? 0, most) / most) }));
    ends.sort((a, b) => a.y - b.y);
    // Names that would lie on one another move apart.
    for (let i = ends.length - 1, below = box.y + box.h + 4; i >= 0; i--) below = (ends[i].y = Math.min(ends[i].y, below)) - 12;
    for (const s of ends) {
      shape(svg, "path", { class: `plot ${s.colour}`, d: path(s.values, most, box) });
      shape(svg, "text", { class: s.colour, x: box.x + box.w + 6, y: Math.max(s.y, box.y) + 4 }, s.name);
    }
  }

  function facts(id, list) {
    byId(id).replaceChildren(
      ...list.map(([name, value, alarm]) => el("div", {}, el("dt", { textContent: name }), el("dd", { textContent: value, className: alarm ? "alarm" : "" }))),
    );
  }

  // What needs somebody, in words; empty when nothing does.
  function trouble(sample) {
    const of = (model) => {
      if (model.state === "failed") return `${model.name}: ${model.why ?? "failed"}`;
      if (model.step_age > 30) return `${model.name}: no step for ${time(model.step_age)}`;
      return null;
    };
    return sample.models.map(of).filter(Boolean);
  }

  function well(sample) {
    const bad = trouble(sample);
    const state = bad.length > 0 ? bad.join("; ") : sample.draining ? "is about to end" : "is well";
    byId("well").textContent = `${state} · lamina ${sample.version} · up ${time(sample.uptime)} · ${sample.connections} connections`;
    byId("well").className = bad.length > 0 ? "alarm" : "";
    const rows = sample.models.map((m) =>
      el("tr", {}, ...[m.name, m.state, m.steps === undefined ? "" : `${number(m.steps)} steps`, m.step_age === null || m.step_age === undefined ? "" : `last step ${time(m.step_age)} ago`].map((t) => el("td", { textContent: t }))),
    );
    byId("models").replaceChildren(el("table", {}, el("tbody", {}, ...rows)));
  }

  const sum = (sample, of) => sample.models.reduce((all, model) => all + (of(model) ?? 0), 0);

  function fast(sample) {
    facts("fast", [
      ["tokens/s out", number(sample.out)],
      ["tokens/s in", number(sample.in)],
      ["run", number(sum(sample, (m) => m.running))],
      ["wait", number(sum(sample, (m) => m.waiting))],
    ]);
    chart("c-tokens", [{ name: "out", colour: "orange", values: column("out") }, { name: "in", colour: "blue", values: column("in") }], number);
    chart("c-queue", [{ name: "run", colour: "green", values: column("running") }, { name: "wait", colour: "grey", values: column("waiting") }], number);
  }

  function feel(sample) {
    const row = (name, told) =>
      el("tr", {}, ...[name, time(told.p50), time(told.p90), time(told.p99), told.goal ? `${percent(told.kept)} of ${time(told.goal)}` : "no goal"].map((t) => el("td", { textContent: t })));
    byId("feel").replaceChildren(row("to the first token", sample.first_token), row("between tokens", sample.between_tokens));
    const pair = (of) => [{ name: "half", colour: "green", values: column(`${of}50`) }, { name: "99 of 100", colour: "orange", values: column(`${of}99`) }];
    chart("c-first", pair("first"), time, sample.first_token.goal);
    chart("c-between", pair("between"), time, sample.between_tokens.goal);
  }

  function full(sample) {
    const pages = (name) => sum(sample, (m) => m.pages?.[name]);
    const all = pages("held") + pages("cached") + pages("free");
    facts("full", [
      ["pages held", all > 0 ? percent(pages("held") / all) : "–", all > 0 && pages("held") / all > 0.97],
      ["kept beginnings", all > 0 ? percent(pages("cached") / all) : "–"],
      ["preempted", number(sum(sample, (m) => m.preemptions))],
      ["memory", bytes(sample.resident)],
    ]);
    const part = (name) => column(name).map((n, i) => (n === null ? null : n / Math.max(1, column("pages")[i])));
    chart("c-pages", [{ name: "held", colour: "orange", values: part("held") }, { name: "kept", colour: "green", values: part("cached") }], percent, undefined, 1);
  }

  function who(sample) {
    const row = (r) => {
      const prompt = r.computed !== null && r.computed < r.prompt ? `${r.computed} of ${r.prompt}` : String(r.prompt);
      const cells = [r.key ?? "–", time(r.age_ms / 1e3), r.station, prompt, String(r.tokens), number(r.rate)];
      const stop = el("button", { type: "button", textContent: "stop", onclick: () => ask(`/debug/requests/${encodeURIComponent(r.id)}`, "DELETE") });
      stop.setAttribute("aria-label", `stop ${r.id}`);
      return el("tr", {}, el("td", { className: "id", textContent: r.id }), ...cells.map((t) => el("td", { textContent: t })), el("td", {}, stop));
    };
    const focused = document.activeElement?.getAttribute("aria-label");
    byId("who").replaceChildren(...sample.requests.map(row));
    // Whoever is on a button stays on it.
    if (focused) [...byId("who").querySelectorAll("button")].find((b) => b.getAttribute("aria-label") === focused)?.focus();
    byId("nobody").hidden = sample.requests.length > 0;
  }

  function bar(parts) {
    const all = parts.reduce((sum, [, value]) => sum + value, 0);
    const pieces = parts.map(([, value], i) => {
      const piece = el("i", { className: `b${i}` });
      piece.style.setProperty("flex", `${value} 0 0`);
      return piece;
    });
    const legend = parts.map(([name, value], i) => el("li", {}, el("i", { className: `b${i}` }), `${name} ${percent(all > 0 ? value / all : null)}`));
    return [el("div", { className: "bar" }, ...pieces), el("ul", { className: "legend" }, ...legend)];
  }

  // Sums of the last samples, so that a second with one step does not flicker.
  const recent = [];
  function where(sample) {
    recent.push(sample);
    if (recent.length > 30) recent.shift();
    const over = (group, name) => recent.reduce((all, s) => all + sum(s, (m) => m[group]?.[name]), 0);
    const kinds = ["decode", "prompt", "mixed"].map((name) => [`${name} steps`, over("kinds", name)]);
    const phases = ["machine", "schedule", "fill", "choose", "tell", "commit"].map((name) => [name, over("phases", name)]);
    const rest = [el("p", { id: "nothing", textContent: "no steps in the last 30 s" })];
    const some = (parts) => parts.some(([, value]) => value > 0);
    byId("where").replaceChildren(...(some(kinds) ? bar(kinds) : rest), ...(some(phases) ? bar(phases) : []));
  }

  function show(sample) {
    newest = sample;
    if (document.hidden) return;
    for (const draw of [well, fast, feel, full, who, where]) draw(sample);
  }

  // One event: the lines of before, or a sample.
  function take(event) {
    if (event.before) {
      names = event.names;
      lines = event.before;
      return;
    }
    lines.push(names.map((name) => lineOf(event)[name] ?? null));
    if (lines.length > SAMPLES) lines.shift();
    show(event);
  }

  function lineOf(s) {
    const page = (name) => sum(s, (m) => m.pages?.[name]);
    return {
      time: s.time, out: s.out, in: s.in, running: sum(s, (m) => m.running), waiting: sum(s, (m) => m.waiting),
      held: page("held"), cached: page("cached"), pages: page("held") + page("cached") + page("free"),
      preemptions: sum(s, (m) => m.preemptions), first50: s.first_token.p50, first99: s.first_token.p99,
      between50: s.between_tokens.p50, between99: s.between_tokens.p99, resident: s.resident,
    };
  }

  function headers() {
    const key = sessionStorage.getItem("lamina-top-key");
    return key ? { authorization: `Bearer ${key}` } : {};
  }

  async function ask(path, method) {
    try {
      await fetch(path, { method, headers: headers() });
    } catch {
      // The stream says that the server is gone.
    }
  }

  async function follow() {
    const response = await fetch("/top/events", { headers: headers() });
    byId("ask").hidden = response.status !== 401;
    if (!response.ok) throw new Error(response.status === 401 ? "a key is needed" : `status ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the server has ended");
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) if (part.startsWith("data:")) take(JSON.parse(part.slice(5)));
    }
  }

  async function run() {
    for (;;) {
      try {
        await follow();
      } catch (error) {
        byId("well").textContent = `not connected: ${error.message}`;
        byId("well").className = "alarm";
      }
      await new Promise((done) => (byId("ask").hidden ? setTimeout(done, AGAIN) : byId("ask").addEventListener("submit", done, { once: true })));
    }
  }

  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("lamina-top-key", byId("key").value);
  });
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("visibilitychange", () => newest && show(newest));
  addEventListener("resize", () => newest && show(newest));
  run();
  return { take, ceiling, path };
})();
