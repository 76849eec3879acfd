"use strict";
// Nodes of the page. Text enters as text only: no string ever becomes markup, and the page's policy forbids it.

// A new element. Names with a dash and `role` are attributes, `onX` listens to the event x, all else are properties.
function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

function button(text, action, properties = {}) {
  return el("button", { type: "button", onclick: action, ...properties }, text);
}

// Copies `text` and says so on the button for a moment.
async function copyText(text, from) {
  const done = await toClipboard(text);
  const before = from.textContent;
  from.textContent = done ? "Copied" : "Not copied";
  announce(from.textContent);
  setTimeout(() => (from.textContent = before), 1500);
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers keep the clipboard for pages from https and this machine; the old way works on all.
    const field = el("textarea", { value: text, className: "hidden" });
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

// Says `text` to those who listen to a screen reader.
function announce(text) {
  byId("status").textContent = text;
}
