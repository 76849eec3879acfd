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
// Elements as far as colours need them.
class FakeElement {
  constructor(tag) {
    Object.assign(this, { tag, children: [] });
  }
  append(...children) {
    this.children.push(...children);
  }
  cloneNode() {
    return this;
  }
  get textContent() {
    return this.children.map((child) => child.textContent ?? child).join("");
  }
}
const document = { createElement: (tag) => new FakeElement(tag), compatMode: "CSS1Compat" };
const window = { localStorage: storage, sessionStorage: storage };
const context = vm.createContext({ window, document, crypto, performance });
const VENDORED = ["marked.min", "prism.min", "katex.min"].map((name) => `vendor/${name}.js`);
const OWN = ["dom", "syntax", "formula", "markdown", "versions", "pictures", "sounds", "store", "client", "params", "greeting", "answer", "engine"];
for (const name of [...VENDORED, ...OWN.map((name) => `script/${name}.js`)]) {
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
  async "conversations are kept, found and checked"() {
    const Store = get("Store");
    const first = Store.fresh();
    first.messages.push({ role: "user", content: "hello", probabilities: [1] });
    Store.save(first);
    assert.deepEqual(plain(Store.all()[0].messages), [{ role: "user", content: "hello", reasoning: "" }]);
    assert.equal(Store.read(await Store.write())[0].id, first.id);
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
    assert.deepEqual(body.messages[1], { role: "user", content: "see" }, "a picture that is gone is left out");
    const url = "data:image/png;base64,QUJD";
    messages[1].images = [get("Pictures").keep(url)];
    const seen = plain(get("requestFor")(conversation, messages, "tiny")).messages[1].content;
    assert.deepEqual(seen, [{ type: "image_url", image_url: { url } }, { type: "text", text: "see" }]);
    const heard = "data:audio/wav;base64,QUJD";
    messages[1].sounds = [get("Pictures").keep(heard)];
    const both = plain(get("requestFor")(conversation, messages, "tiny")).messages[1].content;
    assert.deepEqual(both, [seen[0], { type: "audio_url", audio_url: { url: heard } }, seen[1]]);
  },
  async "pictures are kept once and go with their conversations"() {
    const { Store, Pictures } = { Store: get("Store"), Pictures: get("Pictures") };
    const url = (text) => `data:image/png;base64,${Buffer.from(text).toString("base64")}`;
    const hashes = ["a", "b", "ab", "a".repeat(5000), "a".repeat(4999) + "b"].map((text) => Pictures.hashOf(url(text)));
    assert.equal(new Set(hashes).size, hashes.length);
    const message = { role: "user", content: "", images: [url("a"), url("b"), url("a"), "https://example.org/p.png", 7] };
    const [read] = Store.read(JSON.stringify({ messages: [message] }));
    assert.deepEqual(plain(read.messages[0].images), [hashes[0], hashes[1], hashes[0]]);
    Store.save(read);
    const file = JSON.parse(await Store.write());
    assert.deepEqual(file.pictures, { [hashes[0]]: url("a"), [hashes[1]]: url("b") });
    assert.deepEqual(plain(Store.read(JSON.stringify(file))[0].messages), plain(read.messages));
    assert.ok(!storage.getItem(`lamina.conversation.${read.id}`).includes("base64"), "conversations name them only");
    Store.remove(read);
    for (const wrong of ["data:text/html;base64,QQ==", "javascript:1", "data:image/svg+xml,<svg/>", null]) {
      assert.ok(!Pictures.isPicture(wrong) && !get("Sounds").isSound(wrong));
    }
  },
  async "sounds are kept beside pictures"() {
    const Store = get("Store");
    const [picture, sound] = ["data:image/png;base64,QQ==", "data:audio/x-wav;base64,QQ=="];
    const message = { role: "user", content: "", images: [picture], sounds: [sound, "https://example.org/a.wav", 7] };
    const [read] = Store.read(JSON.stringify({ messages: [message] }));
    assert.equal(read.messages[0].sounds.length, 1);
    Store.save(read);
    const file = JSON.parse(await Store.write());
    assert.deepEqual(Object.values(file.pictures).sort(), [sound, picture].sort());
    assert.deepEqual(plain(Store.read(JSON.stringify(file))[0].messages), plain(read.messages));
    Store.remove(read);
  },
  "pictures become smaller only above a limit"() {
    const { sidesWithin } = get("Pictures");
    const limits = { pixels: 1e6, side: 2000 };
    assert.deepEqual(plain(sidesWithin(1000, 1000, limits)), [1000, 1000]);
    assert.deepEqual(plain(sidesWithin(2000, 500, limits)), [2000, 500]);
    assert.deepEqual(plain(sidesWithin(4000, 100, limits)), [2000, 50]);
    assert.deepEqual(plain(sidesWithin(40000, 1, limits)), [2000, 1]);
    for (let i = 0; i < 1000; i++) {
      const [width, height] = [1 + ((i * 7919) % 9000), 1 + ((i * 104729) % 9000)];
      const [w, h] = sidesWithin(width, height, limits);
      assert.ok(w * h <= limits.pixels && w <= 2000 && h <= 2000 && w >= 1 && h >= 1, `${width} x ${height}`);
    }
  },
  "formulas are found, and money is none"() {
    const walk = (tokens) => tokens.flatMap((t) => (t.display === undefined ? walk([...(t.tokens ?? []), ...(t.items ?? [])]) : [[t.text, t.display]]));
    const formulas = (text) => plain(walk(get("marked").lexer(text, get("marked").defaults)));
    const inline = (text) => [[text, false]];
    const shown = (text) => [[text, true]];
    const cases = [
      ["so $x^2$ is", inline("x^2")],
      ["so \\(a_1*b*c_2\\) is", inline("a_1*b*c_2")],
      ["it costs $5 and $10, or $3-$4", []],
      ["US$5 or $ 3 $", []],
      ["`$x$` and \\$y$", []],
      ["$a \\$ b$", inline("a \\$ b")],
      ["- one $$x$$\n- two", shown("x")],
      ["before\n$$\na\n\nb\n$$\nafter", shown("a\n\nb")],
      ["\\[ \\frac{1}{2} \\]", shown("\\frac{1}{2}")],
      ["text\n\\begin{align*}a&=b\\\\c&=d\\end{align*}\nmore", shown("\\begin{align*}a&=b\\\\c&=d\\end{align*}")],
      ["open $$ x", []],
      ["```\n$$x$$\n```", []],
      ["$$ $$ and \\( \\)", []],
    ];
    for (const [text, wanted] of cases) assert.deepEqual(formulas(text), wanted, text);
  },
  "no text takes long to search for formulas"() {
    const { marked } = { marked: get("marked") };
    const start = process.cpuUsage().user;
    for (const part of ["$", "$a", "\\(", "\\[x", "$$x\n", "a $x\n\n", "\\begin{align}\n"]) {
      marked.lexer(part.repeat(20000 / part.length), marked.defaults);
    }
    const seconds = (process.cpuUsage().user - start) / 1e6;
    assert.ok(seconds < 10, `${seconds} s`);
  },
  "code keeps its text and is coloured seldom while it grows"() {
    const { Syntax, Prism } = { Syntax: get("Syntax"), Prism: get("Prism") };
    const text = (nodes) => nodes.map((node) => node.textContent ?? node).join("");
    const codes = ["fn main() { let x = \"</script>\"; } // é", "<script>alert('</script>')</script>", "{\"a\": [1, null]}", "((((((", ""];
    for (const code of codes) {
      for (const language of ["rust", "html", "c++", "tsx", "json", "", "no language", "__proto__", "constructor", "extend", "DFS"]) {
        assert.equal(text(Syntax.nodes(code, language)), code, language);
      }
    }
    const classes = (language) => Syntax.nodes(codes[0], language).map((node) => node.className).filter(Boolean);
    assert.deepEqual(plain(classes("rs")), ["code-keyword", "code-name", "code-keyword", "code-string", "code-comment"]);
    assert.deepEqual(plain(classes("no language")), []);
    const own = Prism.tokenize;
    let calls = 0;
    Prism.tokenize = (...given) => {
      calls += 1;
      return own(...given);
    };
    const long = "let value = compute(1, 'two');\n".repeat(300);
    for (let end = 1; end <= long.length; end += 3) assert.equal(text(Syntax.growing(long.slice(0, end), "js")), long.slice(0, end));
    Prism.tokenize = own;
    assert.ok(calls > 5 && calls < 50, `${calls} times`);
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

async function run() {
  for (const [name, test] of Object.entries(tests)) {
    await test();
    console.log(`ok: ${name}`);
  }
}

run().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
