// Parts of the page without a browser: `node page_units.js FOLDER`, where FOLDER has the page's files.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];
const items = new Map();
const storage = {
  get length() {
    return items.size;
  },
  key: (index) => [...items.keys()][index],
  getItem: (name) => items.get(name) ?? null,
  setItem: (name, value) => items.set(name, value),
  removeItem: (name) => items.delete(name),
};
const context = vm.createContext({ window: { localStorage: storage, sessionStorage: storage }, crypto, performance });
for (const name of ["vendor/marked.min.js", "script/dom.js", "script/markdown.js", "script/versions.js", "script/store.js", "script/client.js", "script/params.js", "script/greeting.js", "script/answer.js", "script/engine.js"]) {
  vm.runInContext(fs.readFileSync(path.join(folder, name), "utf8"), context, { filename: name });
}
const get = (name) => vm.runInContext(name, context);
const plain = (value) => JSON.parse(JSON.stringify(value));

const tests = {
  "the engine's picture is read from its metrics"() {
    const { read, speed, points } = get("Engine");
    const text = (tokens, cache) => `# HELP lamina:generation_tokens Tokens
lamina:generation_tokens_total{model_name="a"} ${tokens}
lamina:generation_tokens_total{model_name="b \\"x\\""} 5
lamina:request_generation_tokens_sum{model_name="a"} 900.0
lamina:num_requests_running{model_name="a"} 2.0
lamina:num_requests_running{model_name="b"} 1.0
lamina:num_requests_waiting{model_name="a"} 4.0
lamina:kv_cache_usage_perc{model_name="a"} ${cache}
lamina:kv_cache_usage_perc{model_name="b"} 0.75
`;
    const before = read(text(10, 0.25), "a", 1000);
    assert.deepEqual(plain(before), { time: 1000, tokens: 15, running: 3, waiting: 4, cache: 0.25 });
    assert.equal(read(text(10, 0.25), "c", 0).cache, 0.75, "of an unknown one the fullest");
    const now = read(text(60, 0.5).replaceAll("lamina:", ""), "a", 3000);
    assert.equal(speed(before, now), 25);
    assert.equal(speed(now, before), null, "a server that was started anew");
    assert.equal(speed(null, now), null);
    assert.equal(points([0, 10, 5]), "58,19.0 59,1.0 60,10.0");
    assert.deepEqual(plain(read("", "a", 0)), { time: 0, tokens: 0, running: 0, waiting: 0, cache: 0 });
  },
  "answers that are made again are kept"() {
    const { of, show, next, checked } = get("Versions");
    const first = next();
    assert.deepEqual(plain(first), { role: "assistant", content: "", reasoning: "" });
    Object.assign(first, { content: "one", figures: { speed: 1 } });
    const second = next(of(first));
    second.content = "two";
    assert.deepEqual(plain(of(second).map((v) => v.content)), ["one", "two"]);
    show(second, 0);
    assert.equal(second.content, "one");
    assert.equal(second.figures.speed, 1);
    show(second, 1);
    assert.equal(second.content, "two");
    assert.equal(second.figures, undefined);
    show(second, 7);
    assert.equal(second.version, 1);
    const third = next(of(second));
    assert.equal(third.version, 2);
    assert.deepEqual(plain(checked(plain(second))), plain(second));
    for (const broken of [{ versions: 7 }, { versions: [{}], version: 0 }, { versions: [], version: -1 }, { versions: [] }]) {
      assert.deepEqual(plain(checked({ role: "assistant", content: "x", ...broken })), { role: "assistant", content: "x" });
    }
  },
  "a greeting tells what is known of the model"() {
    const { facts } = get("Greeting");
    const meta = { n_params: 7241732096, type_name: "Q4_K_M", size: 4.37e9, n_ctx: 32768 };
    assert.equal(facts({ meta }), "7.2B parameters · Q4_K_M · 4.4 GB · context of 32,768 tokens");
    assert.equal(facts({ meta: { n_params: 260032 } }), "260K parameters");
    assert.match(facts({ meta: null, status: { value: "unloaded" } }), /loaded with the first message/);
    assert.equal(facts(undefined), "It is loaded with the first message.");
  },
  "events are the same however the body is cut"() {
    const body = ': ping\r\n\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata:{"b": "é"}\n\ndata: [DONE]\n\n';
    for (let size = 1; size <= body.length; size++) {
      const parser = new (get("EventParser"))();
      const events = [];
      for (let at = 0; at < body.length; at += size) events.push(...parser.push(body.slice(at, at + size)));
      assert.deepEqual(events, ['{"a": 1}', '{"b": "é"}', "[DONE]"]);
    }
  },
  "parameters are read as the API takes them"() {
    const read = (kind, text, more) => plain({ v: get("Params").read({ kind, ...more }, text) }).v;
    assert.equal(read("float", "0,5"), 0.5);
    assert.equal(read("int", " 7 "), 7);
    assert.equal(read("int", ""), undefined);
    assert.deepEqual(read("strings", "a\n\\n\n"), ["a", "\n"]);
    assert.deepEqual(read("biases", "5=-1, 7=2.5"), { 5: -1, 7: 2.5 });
    for (const [kind, text, more] of [["int", "1.5"], ["float", "x"], ["biases", "5"], ["float", "3", { min: 0, max: 2 }]]) {
      assert.throws(() => read(kind, text, more), /must be/);
    }
  },
  "conversations are kept, found and checked"() {
    const Store = get("Store");
    const first = Store.fresh();
    first.messages.push({ role: "user", content: "hello", probabilities: [1] });
    Store.save(first);
    assert.deepEqual(plain(Store.all()[0].messages), [{ role: "user", content: "hello", reasoning: "" }]);
    assert.equal(Store.read(Store.write())[0].id, first.id);
    for (const broken of ["", "1", "{}", '{"messages": [{"role": "robot", "content": ""}]}', '[{"messages": [{}]}]']) {
      assert.throws(() => Store.read(broken), /no conversations/);
    }
    Store.remove(first);
    assert.equal(Store.all().length, 0);
  },
  "requests hold what was set and nothing else"() {
    const conversation = { system: " ", params: { top_k: 3 }, messages: [] };
    const messages = [{ role: "user", content: "hi", figures: {} }, { role: "user", content: "see", images: ["data:x"] }];
    const body = plain(get("requestFor")(conversation, messages, "tiny"));
    assert.deepEqual(Object.keys(body).sort(), ["messages", "model", "stream", "stream_options", "top_k"]);
    assert.deepEqual(body.messages[0], { role: "user", content: "hi" });
    assert.equal(body.messages[1].content[0].image_url.url, "data:x");
  },
  "chunks add up to a message"() {
    const message = { content: "", reasoning: "" };
    const reader = new (get("AnswerReader"))(message);
    const delta = (fields) => reader.take({ model: "m", choices: [{ delta: fields, finish_reason: null }] });
    delta({ role: "assistant", content: "" });
    delta({ reasoning_content: "hm" });
    delta({ content: "Hel" });
    delta({ content: "lo" });
    reader.take({ choices: [{ delta: {}, finish_reason: "length" }], timings: { predicted_per_second: 7 } });
    reader.take({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 3 } });
    reader.end();
    assert.equal(message.content, "Hello");
    assert.equal(message.reasoning, "hm");
    assert.deepEqual([message.figures.finish, message.figures.speed, message.figures.usage.completion_tokens], ["length", 7, 3]);
  },
};

for (const [name, test] of Object.entries(tests)) {
  test();
  console.log(`ok: ${name}`);
}
