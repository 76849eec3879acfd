"use strict";
// One message on the page: its text, what is folded under it, its figures, its buttons, and its error.
class MessageView {
  // `actions` has the functions that the buttons call with this message.
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.thoughts = el("div", { className: "markdown" });
    this.summary = el("summary", {}, "Reasoning");
    this.fold = el("details", { className: "reasoning", hidden: true }, this.summary, this.thoughts);
    this.text = el("div", { className: "markdown" });
    this.pictures = el("div", { className: "pictures" });
    this.tokens = el("div", { className: "tokens", hidden: true });
    this.figures = el("p", { className: "figures" });
    this.error = el("div", { className: "error", role: "alert", hidden: true });
    this.buttons = el("div", { className: "buttons" });
    const name = message.role === "user" ? "You" : "Answer";
    this.node = el(
      "article",
      { className: message.role, "aria-label": name },
      el("h2", {}, name),
      this.fold,
      this.pictures,
      this.text,
      this.tokens,
      this.figures,
      this.error,
      this.buttons,
    );
    this.update(false);
  }

  // Draws what the message holds now; `streaming` while more is to come.
  update(streaming) {
    const { message } = this;
    this.node.setAttribute("aria-busy", String(streaming));
    this.drawReasoning(streaming);
    if (message.role === "assistant") Markdown.render(this.text, message.content, streaming);
    else this.text.replaceChildren(el("p", { className: "plain" }, message.content));
    this.drawAttached(message.images ?? [], message.sounds ?? []);
    this.figures.textContent = streaming ? "" : figuresOf(message);
    this.drawError(message.error);
    this.drawButtons(streaming);
  }

  // By their hashes; those that were not found yet are asked for again.
  drawAttached(images, sounds) {
    const shown = [...images, ...sounds].map((hash) => Boolean(Pictures.urlOf(hash)) + hash).join();
    if (shown === this.shownAttached) return;
    this.shownAttached = shown;
    const players = sounds.map((hash) => Sounds.node(Pictures.urlOf(hash), "Attached sound"));
    this.pictures.replaceChildren(...images.map(Pictures.urlOf).map(pictureNode), ...players);
  }

  drawReasoning(streaming) {
    const { reasoning, content } = this.message;
    this.fold.hidden = !reasoning;
    if (!reasoning) return;
    Markdown.render(this.thoughts, reasoning, streaming && !content);
    this.summary.textContent = streaming && !content ? "Reasoning …" : "Reasoning";
  }

  drawError(error) {
    this.error.hidden = !error;
    if (!error) return this.error.replaceChildren();
    const again = button("Try again", () => this.actions.regenerate(this.message));
    this.error.replaceChildren(el("span", {}, error), again);
  }

  // Redrawn only when the set changes, so that the focus stays where it is.
  drawButtons(streaming) {
    const { message, actions } = this;
    const answer = message.role === "assistant";
    const last = actions.isLast(message);
    const versions = answer && last ? Versions.of(message).length : 1;
    const at = message.version ?? 0;
    const offered = streaming ? "" : [answer, last, Boolean(message.probabilities), versions, at].join();
    if (offered === this.offered) return;
    this.offered = offered;
    if (streaming) return this.buttons.replaceChildren();
    const copy = button("Copy", () => copyText(message.content, copy));
    const tokens = button("Tokens", () => this.toggleTokens(tokens), { "aria-expanded": "false" });
    const step = (sign, to, name) => button(sign, () => actions.choose(message, to), { "aria-label": name, disabled: to < 0 || to >= versions });
    this.buttons.replaceChildren(
      ...(versions > 1
        ? [step("‹", at - 1, "Earlier answer"), el("span", { className: "version" }, `${at + 1}/${versions}`), step("›", at + 1, "Later answer")]
        : []),
      copy,
      button("Edit", () => this.edit()),
      ...(answer ? [button("Regenerate", () => actions.regenerate(message))] : []),
      ...(answer && last ? [button("Continue", () => actions.extend(message))] : []),
      ...(message.probabilities ? [tokens] : []),
      button("Delete", () => actions.remove(message)),
    );
  }

  toggleTokens(from) {
    const open = this.tokens.hidden;
    this.tokens.hidden = !open;
    this.text.hidden = open;
    from.setAttribute("aria-expanded", String(open));
    if (open) this.tokens.replaceChildren(...this.message.probabilities.map(tokenNode));
  }

  edit() {
    const { message } = this;
    const field = el("textarea", { value: message.content, rows: 4, "aria-label": "Edit the message" });
    const close = () => {
      form.replaceWith(this.text);
      this.buttons.hidden = false;
      this.buttons.querySelector("button")?.focus();
    };
    const done = () => {
      close();
      this.actions.edited(message, field.value);
    };
    const keys = (event) => {
      if (event.key === "Escape") close();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) done();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    field.addEventListener("keydown", keys);
    const name = message.role === "user" ? "Send" : "Save";
    const row = el("div", { className: "row" }, button(name, done), button("Cancel", close));
    const form = el("div", { className: "editor" }, field, row);
    this.text.replaceWith(form);
    this.buttons.hidden = true;
    field.focus();
  }
}

// A picture, small until it is pressed.
function pictureNode(src) {
  if (!src) return el("span", { className: "help" }, "This browser no longer keeps this picture.");
  const enlarge = () => picture.setAttribute("aria-pressed", String(picture.getAttribute("aria-pressed") !== "true"));
  const picture = el("button", { type: "button", onclick: enlarge, "aria-pressed": "false", "aria-label": "Attached picture, enlarged when pressed" });
  picture.append(el("img", { src, alt: "Attached picture" }));
  return picture;
}

// A token of the answer, darker the less likely it was; its title has the others that were near.
function tokenNode(entry) {
  const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;
  const others = (entry.top_logprobs ?? []).map((other) => `${JSON.stringify(other.token)} ${percent(other.logprob)}`);
  const title = [percent(entry.logprob), ...others].join("\n");
  const node = el("span", { title, tabIndex: 0, "aria-label": `${entry.token}, ${title}` }, entry.token);
  node.style.setProperty("--doubt", String(Math.round(60 * (1 - Math.exp(entry.logprob)))) + "%");
  return node;
}

const ENDINGS = { length: "ended at its limit", stopped: "stopped", content_filter: "filtered" };

// Counts and times of an answer in one line.
function figuresOf(message) {
  const { usage, firstToken, speed, finish, model } = message.figures ?? {};
  if (!usage && firstToken === undefined) return "";
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const parts = [
    model,
    usage && `prompt ${usage.prompt_tokens} tokens${cached ? ` (${cached} cached)` : ""}`,
    usage && `answer ${usage.completion_tokens} tokens`,
    firstToken !== undefined && `first after ${(firstToken / 1000).toFixed(2)} s`,
    speed && `${speed.toFixed(1)} tokens/s`,
    ENDINGS[finish],
  ];
  return parts.filter(Boolean).join(" · ");
}
