"use strict";
// The form of sampling parameters, drawn from the list that the server gives in `/props`.
const Params = (() => {
  const LENGTH = {
    name: "max_tokens",
    kind: "optional_int",
    min: 1,
    doc: "Tokens of an answer at most.",
  };
  const STOP = { name: "stop", kind: "strings", doc: "Texts that end the answer, one a line; \\n is the end of a line." };
  // Fields of llama.cpp's server's list that are no sampling parameters.
  const OTHER = /^(n_|stream|stop$|max_tokens$|samplers$|grammar|lora|timings|post_|backend|speculative|chat_format|reasoning|generation_prompt|ignore_eos|return_|cache_)/;
  // Drawn apart from the list.
  const OWN = [LENGTH.name, STOP.name, "logprobs"];
  let known = [LENGTH, STOP];

  // The list of a server that only gives the values.
  function guessed(values) {
    const plain = ([name, value]) => !OTHER.test(name) && (value === null || typeof value === "number");
    const known = Object.entries(values ?? {}).filter(plain);
    return known.map(([name, value]) => ({ name, kind: "float", default: value }));
  }

  function learn(props) {
    const list = Array.isArray(props?.parameters) ? props.parameters : guessed(props?.default_generation_settings?.params);
    known = [LENGTH, STOP, ...list.filter((p) => !OWN.includes(p.name))];
  }

  function number(text, whole) {
    const value = Number(text.replace(",", "."));
    if (text.trim() === "" || !Number.isFinite(value) || (whole && !Number.isInteger(value))) {
      throw new Error(whole ? "must be a whole number" : "must be a number");
    }
    return value;
  }

  function biases(text) {
    const pairs = text.split(/[\s,]+/).filter(Boolean).map((pair) => pair.split("="));
    const wrong = pairs.some((pair) => pair.length !== 2);
    if (wrong) throw new Error("must be written as ID=BIAS, ID=BIAS");
    return Object.fromEntries(pairs.map(([id, bias]) => [String(number(id, true)), number(bias, false)]));
  }

  function inside(param, value) {
    const { min, max } = param;
    if (typeof value === "number" && ((min ?? value) > value || (max ?? value) < value)) {
      throw new Error(`must be from ${min} to ${max ?? "any number"}`);
    }
    return value;
  }

  const READ = {
    float: (text) => number(text, false),
    int: (text) => number(text, true),
    optional_int: (text) => number(text, true),
    strings: (text) => text.split("\n").filter((line) => line !== "").map((line) => line.replace(/\\n/g, "\n")),
    biases,
  };

  // What the user typed, as the API takes it; undefined for the default.
  function read(param, text) {
    if (text.trim() === "") return undefined;
    return inside(param, READ[param.kind](text));
  }

  function shown(param, value) {
    if (value === undefined || value === null) return "";
    if (Array.isArray(value)) return value.map((line) => line.replace(/\n/g, "\\n")).join("\n");
    // Defaults are 32-bit numbers: 0.05 comes as 0.05000000074505806.
    if (typeof value === "number") return String(Number(value.toPrecision(7)));
    return typeof value === "object" ? Object.entries(value).map((pair) => pair.join("=")).join(", ") : String(value);
  }

  // One field; `change(name, value)` hears of each right value.
  function field(param, value, change) {
    const id = `parameter-${param.name}`;
    const several = param.kind === "strings";
    const input = el(several ? "textarea" : "input", {
      id,
      value: shown(param, value),
      placeholder: shown(param, param.default) || "none",
      spellcheck: false,
      "aria-describedby": `${id}-help`,
    });
    if (several) input.rows = 2;
    else input.inputMode = param.kind === "biases" ? "text" : "decimal";
    const help = el("p", { id: `${id}-help`, className: "help" }, param.doc ?? "");
    input.addEventListener("input", () => {
      try {
        change(param.name, read(param, input.value));
        input.removeAttribute("aria-invalid");
        help.textContent = param.doc ?? "";
      } catch (error) {
        input.setAttribute("aria-invalid", "true");
        help.textContent = `${param.name} ${error.message}.`;
      }
    });
    return el("div", { className: "field" }, el("label", { htmlFor: id }, param.name), input, help);
  }

  return {
    learn,
    read,
    draw: (container, values, change) =>
      container.replaceChildren(...known.map((param) => field(param, values[param.name], change))),
  };
})();
