"use strict";
// A small picture of the engine beside the list of conversations: tokens per second of all answers, requests that run and
// wait, and how full the cache is. It is read from /metrics: each second while this page is answered, else now and then,
// since every look is a line of the server's log.
const Engine = (() => {
  const SAMPLES = 60;
  const BUSY = 1000;
  const IDLE = 30000;
  let speeds = [];
  let last = null;
  let timer = 0;

  // Values of the metrics of one name, whatever their prefix, by model.
  function values(text, name) {
    const found = new Map();
    for (const line of text.split("\n")) {
      const parts = line.match(/^([^\s{#]+)(?:\{(.*)\})? (\S+)/);
      if (!parts || parts[1].replace(/^[^:]*:/, "") !== name) continue;
      const model = parts[2]?.match(/model_name="((?:[^"\\]|\\.)*)"/)?.[1] ?? "";
      found.set(model, (found.get(model) ?? 0) + Number(parts[3]));
    }
    return found;
  }

  // What a text of /metrics says at `time`, in milliseconds; `model` is the one whose cache is meant.
  function read(text, model, time) {
    const sum = (name) => [...values(text, name).values()].reduce((all, value) => all + value, 0);
    const caches = values(text, "kv_cache_usage_perc");
    return {
      time,
      tokens: sum("generation_tokens_total"),
      running: sum("num_requests_running"),
      waiting: sum("num_requests_waiting"),
      cache: caches.get(model) ?? Math.max(0, ...caches.values()),
    };
  }

  // Tokens per second between two looks; null where the server was started anew.
  function speed(before, now) {
    if (!before || now.tokens < before.tokens || now.time <= before.time) return null;
    return (now.tokens - before.tokens) / ((now.time - before.time) / 1000);
  }

  // Points of a line over the samples, the newest at the right edge of a field of 60 by 20.
  function points(samples) {
    const most = Math.max(1, ...samples);
    return samples.map((value, i) => `${SAMPLES - samples.length + i + 1},${(19 - (18 * value) / most).toFixed(1)}`).join(" ");
  }

  function show(now, tokens) {
    const rate = tokens >= 100 ? Math.round(tokens) : Number(tokens.toFixed(1));
    byId("engine-speed").textContent = `${rate} tokens/s`;
    byId("engine-queue").textContent = `${now.running} running, ${now.waiting} waiting`;
    byId("engine-cache").value = now.cache;
    byId("engine-share").textContent = `cache ${Math.round(now.cache * 100)} %`;
    byId("engine-line").setAttribute("points", points(speeds));
  }

  async function look() {
    clearTimeout(timer);
    const busy = Chat.running;
    if (!document.hidden) {
      try {
        const now = read(await Client.text("/metrics"), App.model, performance.now());
        const found = speed(last, now);
        last = now;
        if (found !== null && (busy || found > 0)) speeds = [...speeds, found].slice(-SAMPLES);
        show(now, found ?? 0);
        byId("engine").hidden = false;
      } catch {
        // A server that is older, asks for a key, or is gone: the conversation says so, not this.
        byId("engine").hidden = true;
      }
    }
    plan(busy);
  }

  // One look more follows an answer, so that the last one shows the engine at rest.
  function plan(busy) {
    clearTimeout(timer);
    timer = setTimeout(look, Chat.running || busy ? BUSY : IDLE);
  }

  return { look, read, speed, points };
})();
