"use strict";
// What the browser keeps: conversations and settings until they are deleted, the key until the tab is closed.

// A storage that also works where the browser refuses one; then it lasts as long as the page.
function storageOf(kind) {
  try {
    const storage = window[kind];
    storage.getItem("lamina");
    return storage;
  } catch {
    const items = new Map();
    return {
      get length() {
        return items.size;
      },
      key: (index) => [...items.keys()][index] ?? null,
      getItem: (name) => items.get(name) ?? null,
      setItem: (name, value) => items.set(name, value),
      removeItem: (name) => items.delete(name),
    };
  }
}

const Store = (() => {
  const PREFIX = "lamina.conversation.";
  const SETTINGS = "lamina.settings";
  const KEY = "lamina.key";
  const ROLES = ["user", "assistant"];
  const local = storageOf("localStorage");
  const session = storageOf("sessionStorage");

  // `randomUUID` is kept from pages that come over plain http from another machine.
  function newId() {
    return Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
  }

  function parsed(text) {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  const object = (field) => (typeof field === "object" && field !== null ? field : {});

  const isAttached = (url) => Pictures.isPicture(url) || Sounds.isSound(url);

  // Pictures and sounds by their hashes; they may stand in a file as they are.
  function attached(message) {
    const { images, sounds, ...rest } = message;
    const hashes = (list) => list.map((name) => (isAttached(name) ? Pictures.keep(name) : name));
    const known = (list) => hashes(list).filter((name) => typeof name === "string" && /^[0-9a-z-]{1,80}$/.test(name));
    const lists = Object.entries({ images, sounds }).filter(([, list]) => Array.isArray(list));
    return { ...rest, ...Object.fromEntries(lists.map(([name, list]) => [name, known(list)])) };
  }

  // The conversation that `value` is meant to be, with only the fields that are known, or null.
  function checked(value) {
    if (typeof value !== "object" || value === null || !Array.isArray(value.messages)) return null;
    const known = (m) => ROLES.includes(m?.role) && typeof m.content === "string";
    if (!value.messages.every(known)) return null;
    const text = (field) => (typeof field === "string" ? field : "");
    const created = Number(value.created) || Date.now();
    return {
      id: text(value.id) || newId(),
      title: text(value.title),
      system: text(value.system),
      params: { ...object(value.params) },
      created,
      updated: Number(value.updated) || created,
      messages: value.messages.map((m) => Versions.checked({ ...attached(m), reasoning: text(m.reasoning) })),
    };
  }

  function all() {
    const keys = Array.from({ length: local.length }, (_, index) => local.key(index));
    const own = keys.filter((key) => key?.startsWith(PREFIX));
    const conversations = own.map((key) => checked(parsed(local.getItem(key)))).filter((c) => c !== null);
    return conversations.sort((a, b) => b.updated - a.updated);
  }

  // Probabilities are many times larger than their text: they last as long as the page.
  function save(conversation) {
    const keep = (name, value) => (name === "probabilities" ? undefined : value);
    local.setItem(PREFIX + conversation.id, JSON.stringify(conversation, keep));
  }

  // The conversations of an exported file that are whole; those that are here already are replaced by it.
  function read(text) {
    const value = parsed(text);
    const list = Array.isArray(value) ? value : (value?.conversations ?? [value]);
    const conversations = list.map(checked).filter((c) => c !== null);
    if (!conversations.length) throw new Error("This file holds no conversations.");
    Object.values(object(value.pictures)).filter(isAttached).forEach(Pictures.keep);
    return conversations;
  }

  // All conversations as a file, with the pictures and sounds that are in them.
  async function write() {
    const conversations = all();
    const hashes = [...new Set(Pictures.of(conversations))];
    await Pictures.load(hashes);
    const pictures = Object.fromEntries(hashes.map((hash) => [hash, Pictures.urlOf(hash)]));
    return JSON.stringify({ version: 1, conversations, pictures }, null, 2);
  }

  return {
    all,
    save,
    read,
    write,
    fresh: (from) => checked({ messages: [], system: from?.system, params: from?.params }),
    remove: (conversation) => local.removeItem(PREFIX + conversation.id),
    get settings() {
      return parsed(local.getItem(SETTINGS)) ?? {};
    },
    set(name, value) {
      local.setItem(SETTINGS, JSON.stringify({ ...this.settings, [name]: value }));
    },
    get key() {
      return session.getItem(KEY) ?? "";
    },
    set key(key) {
      if (key) session.setItem(KEY, key);
      else session.removeItem(KEY);
    },
  };
})();
