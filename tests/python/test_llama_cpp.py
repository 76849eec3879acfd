"""`lamina.compat.llama_cpp`: programs of llama-cpp-python run, and their answers have its shapes."""

import json
import pickle
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina.compat import llama_cpp
from lamina.compat.llama_cpp import Llama, LlamaGrammar, LogitsProcessorList, StoppingCriteriaList
from lamina.compat.llama_cpp.chat_formats import CHAT_FORMATS

START = "Once upon a time"
MESSAGES = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell one."}]
RAIN = {"type": "function", "function": {"name": "rain", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip

USAGE = {"prompt_tokens": int, "completion_tokens": int, "total_tokens": int}
HEAD = {"id": str, "object": str, "created": int, "model": str}
TEXT_LOGPROBS = {"text_offset": [int], "token_logprobs": [float], "tokens": [str], "top_logprobs": [dict]}
TEXT_CHOICE = {"text": str, "index": int, "logprobs": None, "finish_reason": str}
CHAT_TOKEN = {"token": str, "bytes": None, "logprob": float}
CHAT_LOGPROBS = {"content": [{**CHAT_TOKEN, "top_logprobs": [CHAT_TOKEN]}], "refusal": None}
MESSAGE = {"role": str, "content": str}
CHAT_CHOICE = {"index": int, "message": MESSAGE, "logprobs": None, "finish_reason": str}
CALL = {"id": str, "type": str, "function": {"name": str, "arguments": str}}
"""Shapes, by llama-cpp-python's `llama_types`."""


@pytest.fixture(scope="module")
def llm():
    with Llama(model_path=str(lamina.builtin.path()), n_ctx=256, n_gpu_layers=0, seed=1, verbose=False) as llm:
        yield llm


def shape(value):
    """Types in the place of values; a list is its first entry."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return None if value is None else type(value)


def test_a_completion_has_their_shape(llm):
    out = llm(START, max_tokens=8, temperature=0)
    assert shape(out) == {**HEAD, "choices": [TEXT_CHOICE], "usage": USAGE}
    assert (out["object"], out["model"], out["id"][:5]) == ("text_completion", llm.model_path, "cmpl-")
    assert out["choices"][0]["text"] == llm.llm.generate(START, max_tokens=8, temperature=0).text
    assert (out["choices"][0]["finish_reason"], out["usage"]["completion_tokens"]) == ("length", 8)
    assert llm.create_completion(START, max_tokens=2, model="mine")["model"] == "mine"


def test_logprobs_and_echo_have_their_shape(llm):
    plain = llm(START, max_tokens=4, temperature=0, logprobs=2)["choices"][0]
    assert shape(plain["logprobs"])["tokens"] == [str] and plain["logprobs"].keys() == TEXT_LOGPROBS.keys()
    assert plain["logprobs"]["text_offset"][0] == len(START) and "".join(plain["logprobs"]["tokens"]) == plain["text"]
    echo = llm(START, max_tokens=4, temperature=0, logprobs=2, echo=True)["choices"][0]
    rows = echo["logprobs"]
    assert echo["text"] == START + plain["text"] == "".join(rows["tokens"])
    assert rows["token_logprobs"][0] is rows["top_logprobs"][0] is None and rows["text_offset"][0] == 0
    assert rows["token_logprobs"][-4:] == pytest.approx(plain["logprobs"]["token_logprobs"])
    assert llm(START, max_tokens=4, temperature=0, echo=True)["choices"][0]["text"] == echo["text"]


def test_chunks_of_a_completion_make_it(llm):
    whole = llm(START, max_tokens=12, seed=5, stop=["."], logprobs=1)["choices"][0]
    chunks = list(llm(START, max_tokens=12, seed=5, stop=["."], logprobs=1, stream=True))
    assert shape(chunks[0]) == {
        **HEAD, "choices": [{**TEXT_CHOICE, "logprobs": shape(chunks[0])["choices"][0]["logprobs"], "finish_reason": None}]
    }  # fmt: skip
    assert "".join(c["choices"][0]["text"] for c in chunks) == whole["text"]
    assert [c["choices"][0]["finish_reason"] for c in chunks][-1] == whole["finish_reason"]
    assert len({c["id"] for c in chunks}) == 1
    offsets = [o for c in chunks if c["choices"][0]["logprobs"] for o in c["choices"][0]["logprobs"]["text_offset"]]
    assert offsets[: len(whole["logprobs"]["tokens"])] == whole["logprobs"]["text_offset"]


def test_a_chat_has_their_shape(llm):
    out = llm.create_chat_completion(MESSAGES, max_tokens=8, seed=3)
    assert shape(out) == {**HEAD, "choices": [CHAT_CHOICE], "usage": USAGE}
    assert (out["object"], out["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")
    logged = llm.create_chat_completion(MESSAGES, max_tokens=3, seed=3, logprobs=True, top_logprobs=2)["choices"][0]
    assert shape(logged["logprobs"]) == CHAT_LOGPROBS and len(logged["logprobs"]["content"][0]["top_logprobs"]) == 2


def test_chunks_of_a_chat_make_it(llm):
    whole = llm.create_chat_completion(MESSAGES, max_tokens=8, seed=3)["choices"][0]
    chunks = list(llm.create_chat_completion(MESSAGES, max_tokens=8, seed=3, stream=True))
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"} and shape(chunks[0]).keys() == {*HEAD, "choices"}
    assert deltas[0] == {"role": "assistant"} and deltas[-1] == {}
    assert "".join(d.get("content", "") for d in deltas) == whole["message"]["content"]
    assert [c["choices"][0]["finish_reason"] for c in chunks][-2:] == [None, whole["finish_reason"]]


def test_tools_are_called_in_their_shape():
    with Llama(lamina.builtin.path(), verbose=False, chat_format="chatml") as llm:
        # The template of the packaged model shows no format of calls.
        llm.llm.chat = lambda *given, _chat=llm.llm.chat, **options: _chat(*given, chat_format="hermes", **options)
        asked = {"messages": MESSAGES, "tools": [RAIN], "seed": 1, "max_tokens": 200}
        asked["tool_choice"] = {"type": "function", "function": {"name": "rain"}}
        choice = llm.create_chat_completion(**asked)["choices"][0]
        calls = choice["message"]["tool_calls"]
        assert shape(choice)["message"] == {"role": str, "content": None, "tool_calls": [CALL]}
        assert choice["finish_reason"] == "tool_calls" and json.loads(calls[0]["function"]["arguments"])["city"]
        chunks = [c["choices"][0] for c in llm.create_chat_completion(**asked, stream=True)]
        pieces = [one for c in chunks for one in c["delta"].get("tool_calls", [])]
        assert chunks[-1]["finish_reason"] == "tool_calls" and {p["type"] for p in pieces} == {"function"}
        first = "".join(p["function"]["arguments"] for p in pieces if p["index"] == 0)
        assert first == calls[0]["function"]["arguments"] and pieces[0]["function"]["name"] == "rain"


FORMATS = json.loads((Path(__file__).parent / "chat_formats.json").read_text())
"""What llama-cpp-python 0.3.36 writes of two conversations in each of its formats, and where its answers end."""


@pytest.mark.parametrize("name", CHAT_FORMATS)
def test_formats_write_what_theirs_do(llm, name):
    template, stop = CHAT_FORMATS[name]
    theirs = FORMATS["formats"][name]
    ours = [llm.llm.apply_chat_template(said, chat_template=template) for said in FORMATS["conversations"]]
    assert (ours, stop) == (theirs["prompts"], theirs["stop"])


def test_a_format_is_what_a_chat_is_written_in():
    said = FORMATS["conversations"][0]
    with Llama(lamina.builtin.path(), verbose=False, chat_format="chatml", seed=1) as llm:
        prompt = FORMATS["formats"]["chatml"]["prompts"][0]
        out = llm.create_chat_completion(said, max_tokens=8, temperature=0)
        assert out["usage"]["prompt_tokens"] == len(llm.tokenize(prompt.encode(), special=True))
        assert out["choices"][0]["message"]["content"] == llm(prompt, max_tokens=8, temperature=0)["choices"][0]["text"]
        heard = []
        llm.llm.chat = lambda *given, _chat=llm.llm.chat, **options: heard.append(options["stop"]) or _chat(*given, **options)
        for stop in (None, "x", ["x", "y"]):
            llm.create_chat_completion(said, max_tokens=1, stop=stop)
        assert heard == [["<|im_end|>"], ["x", "<|im_end|>"], ["x", "y", "<|im_end|>"]]


def test_a_model_without_a_template_gets_their_default(stories_gguf):
    with Llama(stories_gguf, verbose=False) as llm:
        assert (llm.llm.info.has_chat_template, llm.chat_format) == (False, "llama-2")
        out = llm.create_chat_completion(FORMATS["conversations"][0], max_tokens=1)
        prompt = FORMATS["formats"]["llama-2"]["prompts"][0]
        assert out["usage"]["prompt_tokens"] == len(llm.tokenize(prompt.encode(), special=True))


def test_a_form_is_kept(llm):
    yes = LlamaGrammar.from_string('root ::= "yes" | "no"')
    assert llm(START, grammar=yes, max_tokens=9)["choices"][0]["text"] in ("yes", "no")
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    for form in (
        {"response_format": {"type": "json_object", "schema": schema}},
        {"grammar": LlamaGrammar.from_json_schema(json.dumps(schema))},
    ):
        out = llm.create_chat_completion(MESSAGES, max_tokens=99, **form)
        assert isinstance(json.loads(out["choices"][0]["message"]["content"])["ok"], bool)


LINK = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": {"type": "null"}}, "type": "object"}, [{}, {"a": None}], [{"b": None}]),
        ({"type": "object"}, [{"b": 1}], []),
        ({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "null"}}, [{"b": None}], [{"b": 1}]),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}}, [[{"a": 1}]], [[{"b": 1}]]),
        ({"$defs": {"link": LINK}, "$ref": "#/$defs/link"}, [{"next": {"next": None}}], [{"next": {"b": 1}}, {"b": 1}]),
        (
            {
                "$defs": {"base": {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}},
                "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}],
            },
            [{"a": None, "b": None}],
            [{"a": None}, {"a": None, "b": None, "c": 1}],
        ),
    ],
)
def test_objects_of_a_schema_have_no_members_that_it_does_not_name(schema, good, bad):
    grammar = LlamaGrammar.from_json_schema(json.dumps(schema)).grammar
    assert all(grammar.matches(json.dumps(value)) for value in good), good
    assert not any(grammar.matches(json.dumps(value)) for value in bad), bad


def test_a_format_is_closed_wherever_its_schema_stands(llm):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    for form in ({"type": "json_object", "schema": schema}, {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}):
        # Hot enough to write other members, were there any.
        out = llm.create_chat_completion(MESSAGES, temperature=5.0, response_format=form)
        assert json.loads(out["choices"][0]["message"]["content"]).keys() == {"ok"}
    assert "additionalProperties" not in schema


def test_a_schema_that_is_not_json_is_told():
    with pytest.raises(lamina.InvalidRequestError, match="not JSON"):
        LlamaGrammar.from_json_schema("{")


def test_a_grammar_is_read_from_a_file(tmp_path):
    (tmp_path / "g.gbnf").write_text('root ::= "a"+', encoding="utf-8")
    assert LlamaGrammar.from_file(tmp_path / "g.gbnf").grammar.matches("aa")


def test_functions_on_logits_choose_and_end(llm):
    forced = llm.llm.tokenize(" cat")[0]

    def only(ids, scores):
        assert ids.dtype == np.intc
        changed = np.full_like(scores, -np.inf)
        changed[forced] = 0
        return changed

    out = llm(START, max_tokens=3, logits_processor=LogitsProcessorList([only]))
    assert out["choices"][0]["text"] == llm.llm.detokenize([forced] * 3)
    length = len(llm.tokenize(START.encode()))
    five = StoppingCriteriaList([lambda ids, logits: len(ids) >= length + 5])
    choice = llm(START, max_tokens=50, temperature=0, stopping_criteria=five)["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["text"] == llm.llm.generate(START, max_tokens=5, temperature=0).text
    assert len(list(llm.generate(llm.tokenize(START.encode()), stopping_criteria=five))) == 5


def test_tokens_are_of_bytes(llm):
    ids = llm.tokenize(START.encode())
    assert ids == llm.llm.tokenize(START, special=True) and ids[0] == llm.token_bos()
    assert llm.tokenize(START.encode(), add_bos=False) == ids[1:] == llm.tokenize(START.encode(), False, special=True)
    assert llm.detokenize(ids) == START.encode() and llm.detokenize(ids[3:], prev_tokens=ids[:3]) == b" a time"
    assert llm.tokenizer().decode(llm.tokenizer().encode("é")) == "é" and llm.token_eos() in llm.llm.info.end_tokens
    assert (llm.n_vocab(), llm.n_ctx(), llm.n_embd()) == (2048, 256, llm.llm.info.hidden)


def test_embeddings_have_their_shape(llm):
    out = llm.create_embedding(["a cat", "a dog"])
    data = {"object": str, "embedding": [float], "index": int}
    usage = {"prompt_tokens": int, "total_tokens": int}
    assert shape(out) == {"object": str, "data": [data], "model": str, "usage": usage}
    assert [one["index"] for one in out["data"]] == [0, 1]
    assert np.array(llm.embed("a cat")) == pytest.approx(out["data"][0]["embedding"])
    assert len(llm.embed("word " * 999)) == llm.n_embd() and llm.embed([]) == []


def test_tokens_are_taken_one_by_one(llm):
    ids = llm.tokenize(START.encode())
    best = llm.llm.generate(START, max_tokens=4, temperature=0).tokens
    llm.reset()
    llm.eval(ids)
    for token in best:
        assert llm.sample(temp=0.0) == token
        llm.eval([token])
    assert llm.n_tokens == len(ids) + 4 and llm.input_ids.tolist() == ids + best
    assert llm.scores.shape == (len(ids) + 4, llm.n_vocab())
    tokens = llm.generate(ids, temp=0.0)
    assert [next(tokens) for _ in range(2)] == best[:2]
    assert tokens.send(llm.tokenize(b" little", False)) is not None and llm.n_tokens == len(ids) + 2 + 1 + 1
    tokens.close()


def test_a_state_is_kept_and_pickled(llm):
    llm(START, max_tokens=4, temperature=0)
    state = pickle.loads(pickle.dumps(llm.save_state()))
    follows = llm.sample(temp=0.0)
    llm.reset()
    assert llm.n_tokens == 0 and llm.save_state().n_tokens == 0
    llm.load_state(state)
    assert llm.n_tokens == state.n_tokens and llm.sample(temp=0.0) == follows and state.llama_state_size > 0


def test_a_seed_repeats_answers(llm):
    llm.set_seed(7)
    first = [llm(START, max_tokens=8)["choices"][0]["text"] for _ in range(3)]
    llm.set_seed(7)
    assert first == [llm(START, max_tokens=8)["choices"][0]["text"] for _ in range(3)] and len(set(first)) > 1


REFUSED = [
    (lambda llm: llm(START, temprature=1), TypeError, "create_completion has no argument 'temprature'"),
    (lambda llm: llm(START, tfs_z=0.5), lamina.UnsupportedError, "tfs_z"),
    (lambda llm: llm(START, suffix="x"), lamina.UnsupportedError, "suffix"),
    (lambda llm: llm(START, grammar='root ::= "a"'), lamina.InvalidRequestError, "grammar takes a LlamaGrammar"),
    (lambda llm: llm.create_chat_completion(MESSAGES, functions=[]), lamina.UnsupportedError, "functions.*tools"),
    (lambda llm: llm.embed("x", normalize=False), lamina.UnsupportedError, "normalize"),
    (lambda llm: llm.detokenize([1], special=True), lamina.UnsupportedError, "special"),
    (lambda _: Llama("x", n_ctxx=1), TypeError, "Llama has no argument 'n_ctxx'"),
    (lambda _: Llama("x", chat_format="functionary"), lamina.UnsupportedError, "chat_format='functionary'.*llama-2, "),
    (lambda _: Llama("x", vocab_only=True), lamina.UnsupportedError, "vocab_only"),
    (lambda _: Llama.from_pretrained("a/b", "*x*"), lamina.UnsupportedError, r"filename='\*x\*'"),
    (lambda _: Llama.from_pretrained("a/b", local_dir="x"), lamina.UnsupportedError, "local_dir.*HF_HUB_CACHE"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_is_not_here_is_named(llm, call, error, message):
    with pytest.raises(error, match=message):
        call(llm)


def test_names_of_the_hub():
    assert llama_cpp.parts.hub_name("a/b", None) == "hf:a/b"
    assert llama_cpp.parts.hub_name("a/b", "x/y.gguf") == "hf:a/b/x/y.gguf"
    assert llama_cpp.parts.hub_name("a/b", "*Q4_K_M.gguf") == llama_cpp.parts.hub_name("a/b", "*-Q4_K_M.gguf") == "hf:a/b:Q4_K_M"


def test_a_program_of_theirs_runs():
    """Caches and look-up are taken, and change no answer."""
    drafted = Llama(
        model_path=str(lamina.builtin.path()), n_ctx=256, n_threads=1, n_batch=64, logits_all=True, embedding=True,
        use_mlock=False, verbose=False, draft_model=llama_cpp.LlamaPromptLookupDecoding(num_pred_tokens=4),
    )  # fmt: skip
    drafted.set_cache(llama_cpp.LlamaRAMCache(capacity_bytes=1 << 20))
    with drafted, Llama(lamina.builtin.path(), verbose=False) as plain:
        assert plain.n_ctx() == 512
        answers = [one(START, max_tokens=24, temperature=0)["choices"] for one in (drafted, plain)]
        assert answers[0] == answers[1]
