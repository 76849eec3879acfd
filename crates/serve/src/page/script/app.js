"use strict";
// The page around the conversation: models, list of conversations, settings, keys.
const App = (() => {
  const THEMES = ["auto", "light", "dark"];
  let models = [];

  // ---- models

  async function refreshModels() {
    try {
      const list = await Client.get("/v1/models");
      models = list.data ?? [];
      drawModels();
    } catch (error) {
      if (!Chat.running) notice(error.message);
    }
  }

  function drawModels() {
    const select = byId("model");
    const wanted = select.value || Store.settings.model;
    const state = (m) => (m.status?.value && m.status.value !== "loaded" ? ` (${m.status.value})` : "");
    select.replaceChildren(...models.map((m) => el("option", { value: m.id }, m.id + state(m))));
    if (models.some((m) => m.id === wanted)) select.value = wanted;
    select.disabled = models.length < 2;
    greet();
  }

  // Before anything was said, the page says who would answer.
  function greet() {
    const greeting = byId("greeting");
    greeting.hidden = Boolean(Chat.conversation?.messages.length) || !models.length;
    if (greeting.hidden) return;
    const model = models.find((m) => m.id === byId("model").value) ?? models[0];
    Greeting.draw(greeting, model, (text) => {
      byId("text").value = text;
      Chat.send();
      byId("text").focus();
    });
  }

  async function chooseModel() {
    const name = byId("model").value;
    Store.set("model", name);
    greet();
    if (models.find((m) => m.id === name)?.status?.value === "unloaded") await load(name);
    await learnProps();
  }

  async function load(name) {
    const began = Date.now();
    const tell = () => (byId("loading").textContent = `loading ${name}, ${Math.round((Date.now() - began) / 1000)} s`);
    const clock = setInterval(tell, 1000);
    tell();
    try {
      await Client.post("/models/load", { model: name });
      notice("");
    } catch (error) {
      notice(error.message);
    } finally {
      clearInterval(clock);
      byId("loading").textContent = "";
      await refreshModels();
    }
  }

  async function learnProps() {
    const name = byId("model").value;
    try {
      const props = await Client.get(models.length > 1 ? `/props?model=${encodeURIComponent(name)}` : "/props");
      Params.learn(props);
      Pictures.learn(props.image_limits);
      Sounds.learn(props.audio_limits);
      Attachments.offer(props.modalities);
      drawParameters();
      Engine.look();
    } catch (error) {
      notice(error.message);
    }
  }

  // ---- conversations

  function listConversations() {
    const current = Chat.conversation;
    const stored = Store.all();
    byId("conversations").replaceChildren(...stored.map((c) => conversationItem(c, c.id === current?.id)));
    byId("export").disabled = !stored.length;
  }

  function conversationItem(conversation, current) {
    const title = conversation.title || "Untitled";
    const choose = () => openConversation(conversation);
    const mark = current ? { "aria-current": "true" } : {};
    return el(
      "li",
      {},
      button(title, choose, { className: "title", title, ...mark }),
      button("×", () => removeConversation(conversation, title), { className: "delete", "aria-label": `Delete ${title}` }),
    );
  }

  function openConversation(conversation) {
    Chat.open(conversation);
    byId("system").value = conversation.system;
    drawParameters();
    listConversations();
    showSide(false);
    notice("");
    byId("text").focus();
  }

  function removeConversation(conversation, title) {
    if (!confirm(`Delete “${title}”?`)) return;
    Store.remove(conversation);
    if (conversation.id === Chat.conversation.id) openConversation(Store.all()[0] ?? Store.fresh());
    else listConversations();
  }

  async function exportConversations() {
    const url = URL.createObjectURL(new Blob([await Store.write()], { type: "application/json" }));
    const link = el("a", { href: url, download: "lamina-conversations.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  async function importConversations(file) {
    try {
      const conversations = Store.read(await file.text());
      conversations.forEach((c) => Store.save(c));
      openConversation(conversations[0]);
      announce(`${conversations.length} conversations imported`);
    } catch (error) {
      notice(`${file.name}: ${error.message}`);
    }
  }

  // ---- settings

  function drawParameters() {
    const { params } = Chat.conversation;
    const change = (name, value) => {
      if (value === undefined) delete params[name];
      else params[name] = value;
      keepIfStored();
    };
    Params.draw(byId("parameters"), params, change);
  }

  // A conversation without messages is not in the list yet.
  function keepIfStored() {
    if (Chat.conversation.messages.length) Chat.keep();
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    const toggle = byId("theme");
    toggle.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
    toggle.setAttribute("aria-label", `Colours: ${theme}. Change to ${next}`);
    toggle.onclick = () => {
      Store.set("theme", next);
      setTheme(next);
    };
  }

  function showSide(open) {
    document.body.classList.toggle("side-open", open);
    byId("menu").setAttribute("aria-expanded", String(open));
  }

  // ---- keys and start

  function fitText() {
    const field = byId("text");
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 240)}px`;
  }

  function listenToKeys() {
    byId("text").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      Chat.send();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || byId("settings").open) return;
      if (Chat.running) Chat.stop();
      else showSide(false);
    });
  }

  function listenToButtons() {
    const click = (id, action) => byId(id).addEventListener("click", action);
    const files = (id, use) =>
      byId(id).addEventListener("change", async (event) => {
        const chosen = [...event.target.files];
        event.target.value = "";
        if (chosen.length) await use(chosen);
      });
    click("send", () => (Chat.running ? Chat.stop() : Chat.send()));
    click("new", () => openConversation(Store.fresh(Chat.conversation)));
    click("menu", () => showSide(!document.body.classList.contains("side-open")));
    click("export", exportConversations);
    click("import", () => byId("import-file").click());
    files("import-file", ([file]) => importConversations(file));
    Attachments.listen();
    byId("model").addEventListener("change", chooseModel);
    byId("text").addEventListener("input", fitText);
    document.addEventListener("visibilitychange", () => document.hidden || !models.length || Engine.look());
    window.addEventListener("pagehide", () => Chat.running && Chat.keep());
  }

  function listenToSettings() {
    const dialog = byId("settings");
    byId("settings-open").addEventListener("click", () => dialog.showModal());
    byId("settings-close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => byId("text").focus());
    byId("system").addEventListener("input", (event) => {
      Chat.conversation.system = event.target.value;
      keepIfStored();
    });
    byId("key").value = Store.key;
    byId("key").addEventListener("change", (event) => {
      Store.key = event.target.value.trim();
      notice("");
      refreshModels().then(learnProps);
    });
    byId("logprobs").checked = Boolean(Store.settings.logprobs);
    byId("logprobs").addEventListener("change", (event) => Store.set("logprobs", event.target.checked));
    byId("parameters-reset").addEventListener("click", () => {
      Chat.conversation.params = {};
      drawParameters();
      keepIfStored();
    });
  }

  async function start() {
    setTheme(THEMES.includes(Store.settings.theme) ? Store.settings.theme : "auto");
    listenToButtons();
    listenToSettings();
    listenToKeys();
    openConversation(Store.all()[0] ?? Store.fresh());
    await refreshModels();
    Pictures.sweep(Pictures.of([Chat.conversation, ...Store.all()]));
    if (models.length) await learnProps();
  }

  return {
    start,
    greet,
    refreshModels,
    listConversations,
    fitText,
    get model() {
      return byId("model").value;
    },
  };
})();

App.start();
