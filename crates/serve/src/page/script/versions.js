"use strict";
// Answers that were made again: the older ones are kept beside the one that is shown.
const Versions = (() => {
  const FIELDS = ["content", "reasoning", "figures", "probabilities", "error"];

  function saved(message) {
    return Object.fromEntries(FIELDS.filter((name) => message[name] !== undefined).map((name) => [name, message[name]]));
  }

  // All versions of an answer, the one that is shown as it is now.
  function of(message) {
    const list = [...(message.versions ?? [])];
    list[message.version ?? 0] = saved(message);
    return list;
  }

  // Shows another version of an answer.
  function show(message, index) {
    const list = of(message);
    if (index < 0 || index >= list.length) return;
    FIELDS.forEach((name) => delete message[name]);
    Object.assign(message, { content: "", reasoning: "" }, list[index], { versions: list, version: index });
  }

  // An answer that has not begun, with those that it stands beside.
  function next(older) {
    const fresh = { role: "assistant", content: "", reasoning: "" };
    return older?.length ? { ...fresh, versions: older, version: older.length } : fresh;
  }

  // Versions as a file has them: all whole, or none.
  function checked(message) {
    const whole = (v) => typeof v?.content === "string" && typeof (v.reasoning ?? "") === "string";
    const list = message.versions;
    const fits = Array.isArray(list) && Number.isInteger(message.version) && message.version >= 0 && message.version <= list.length;
    if (fits && list.every(whole)) return message;
    const { versions, version, ...rest } = message;
    return rest;
  }

  return { of, show, next, checked };
})();
