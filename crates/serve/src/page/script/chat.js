"use strict";
// The conversation on the page: what is sent, stopped, edited and answered again.
const Chat = (() => {
  let conversation = null;
  let views = new Map();
  let running = null;

  const actions = {
    isLast: (message) => conversation.messages.at(-1) === message,
    regenerate,
    extend: (message) => generate(message),
    choose,
    edited,
    remove,
  };

  function open(next) {
    stop();
    running = null;
    setRunning(false);
    conversation = next;
    redraw();
    byId("log").scrollTop = byId("log").scrollHeight;
    showPictures(next);
  }

  // Those that the browser's database has.
  async function showPictures(shown) {
    const hashes = Pictures.of([shown]);
    if (!hashes.length) return;
    await Pictures.load(hashes);
    if (conversation === shown) redraw();
  }

  function redraw() {
    views = new Map(conversation.messages.map((m) => [m, views.get(m) ?? new MessageView(m, actions)]));
    byId("log").replaceChildren(...[...views.values()].map((view) => view.node));
    views.forEach((view, message) => view.update(running?.message === message));
    App.greet();
  }

  function keep(changed = conversation) {
    changed.updated = Date.now();
    changed.title ||= titleOf(changed.messages[0]?.content) || (Pictures.of([changed]).length ? "Picture" : "");
    try {
      Store.save(changed);
    } catch {
      notice("The browser's storage is full: this conversation is not kept. Export it, or delete others.");
    }
    App.listConversations();
  }

  function titleOf(text) {
    const line = (text ?? "").trim().split("\n")[0];
    return line.length > 60 ? `${line.slice(0, 57)}…` : line;
  }

  function send() {
    const field = byId("text");
    if (running || (!field.value.trim() && !Attachments.any)) return;
    conversation.messages.push({ role: "user", content: field.value, ...Attachments.take() });
    field.value = "";
    App.fitText();
    generate();
  }

  // Answers the last message, or goes on with `message` where it is an answer already.
  async function generate(message, older) {
    if (running) return;
    notice("");
    message ??= appended(older);
    message.error = undefined;
    const before = conversation.messages.slice(0, conversation.messages.indexOf(message));
    const messages = message.content ? [...before, message] : before;
    const control = new AbortController();
    const run = { message, control, conversation };
    running = run;
    redraw();
    scroll(true);
    setRunning(true);
    Engine.look();
    announce("Answering");
    await Pictures.load(Pictures.of([run.conversation]));
    const body = requestFor(run.conversation, messages, App.model);
    await answer(body, message, control.signal, () => show(run));
    finish(run);
  }

  function appended(older) {
    const message = Versions.next(older);
    conversation.messages.push(message);
    keep();
    return message;
  }

  function show(run) {
    if (running !== run) return;
    const bottom = atBottom();
    views.get(run.message)?.update(true);
    scroll(bottom);
  }

  function finish(run) {
    const bottom = atBottom();
    if (running === run) {
      running = null;
      setRunning(false);
    }
    // Somebody may have opened another conversation meanwhile; the answer is kept in its own.
    keep(run.conversation);
    if (conversation !== run.conversation) return;
    views.get(run.message)?.update(false);
    scroll(bottom);
    announce(run.message.error ?? `Answer: ${run.message.content}`);
    App.refreshModels();
  }

  function stop() {
    running?.control.abort();
  }

  function setRunning(on) {
    const send = byId("send");
    send.textContent = on ? "Stop" : "Send";
    send.classList.toggle("stop", on);
  }

  function regenerate(message) {
    if (running) return;
    const at = conversation.messages.indexOf(message);
    const user = message.role === "user";
    // The answer that is made again stays beside the new one.
    const older = user || !message.content ? message.versions : Versions.of(message);
    conversation.messages.length = user ? at + 1 : at;
    generate(undefined, older);
    byId("text").focus();
  }

  // Shows another one of an answer's versions.
  function choose(message, index) {
    if (running) return;
    Versions.show(message, index);
    keep();
    redraw();
    announce(`Answer ${index + 1} of ${message.versions.length}`);
  }

  // What follows an edited message answered its old text. A changed answer stays as it is, to be gone on with.
  function edited(message, text) {
    if (running || text === message.content) return;
    const at = conversation.messages.indexOf(message);
    conversation.messages.length = at + 1;
    message.content = text;
    message.probabilities = message.figures = message.error = undefined;
    keep();
    redraw();
    if (message.role === "user") regenerate(message);
  }

  function remove(message) {
    if (running) return;
    conversation.messages = conversation.messages.filter((other) => other !== message);
    keep();
    redraw();
    byId("text").focus();
  }

  function atBottom() {
    const log = byId("log");
    return log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  }

  // Follows the answer, unless the reader has scrolled up.
  function scroll(follow) {
    const log = byId("log");
    if (follow) log.scrollTop = log.scrollHeight;
  }

  return {
    open,
    send,
    stop,
    keep,
    get conversation() {
      return conversation;
    },
    get running() {
      return running !== null;
    },
  };
})();

// Says what went wrong apart from any message.
function notice(text) {
  byId("notice").textContent = text;
}
