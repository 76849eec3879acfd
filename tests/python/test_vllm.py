"""`lamina.compat.vllm`: programs as users of vLLM write them, with another import line."""

import lamina
import pytest
from lamina.compat.vllm import (
    LLM,
    BeamSearchParams,
    LoRARequest,
    SamplingParams,
    StructuredOutputsParams,
    TokensPrompt,
)

PROMPTS = ["Once upon a time", "The little dog", "Lily and Tom went to the park"]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"


@pytest.fixture(scope="module")
def llm():
    with LLM(model=None, max_model_len=256, gpu_memory_utilization=0.9, enforce_eager=True, progress=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def own(llm):
    return llm.llm


def test_the_basic_program(llm, own):
    """`examples/offline_inference/basic`: prompts in, prompt and text of each out, in order."""
    outputs = llm.generate(PROMPTS, SamplingParams(temperature=0.0, max_tokens=12))
    assert [output.prompt for output in outputs] == PROMPTS
    for output, prompt in zip(outputs, PROMPTS):
        answer, expected = output.outputs[0], own.generate(prompt, max_tokens=12, temperature=0)
        assert (answer.text, answer.token_ids, answer.index) == (expected.text, expected.tokens, 0)
        assert (answer.finish_reason, answer.stop_reason, answer.logprobs) == ("length", None, None)
        assert output.finished and answer.finished() and output.prompt_token_ids == own.tokenize(prompt, special=True)
        assert output.prompt_logprobs is None and output.request_id


def test_defaults_are_theirs(llm):
    params = SamplingParams()
    assert (params.temperature, params.top_p, params.top_k, params.max_tokens, params.n) == (1.0, 1.0, 0, 16, 1)
    assert len(llm.generate("Once")[0].outputs[0].token_ids) <= 16
    ours = params.ours()
    assert (ours.temperature, ours.top_k, ours.top_p, ours.min_p) == (1.0, 0, 1.0, 0.0)


def test_ids_and_dicts_are_prompts(llm, own):
    ids = own.tokenize(PROMPTS[0], special=True)
    greedy = SamplingParams(temperature=0, max_tokens=8)
    given = [PROMPTS[0], {"prompt": PROMPTS[0]}, TokensPrompt(prompt_token_ids=ids), ids]
    outputs = llm.generate(given, greedy)
    assert len({output.outputs[0].text for output in outputs}) == 1
    assert [output.prompt for output in outputs] == [PROMPTS[0], PROMPTS[0], None, None]
    assert all(output.prompt_token_ids == ids for output in outputs)
    assert llm.generate(ids, greedy)[0].outputs[0].text == outputs[0].outputs[0].text
    with pytest.raises(lamina.UnsupportedError, match="multi_modal_data"):
        llm.generate({"prompt": "x", "multi_modal_data": {}})
    with pytest.raises(lamina.UnsupportedError, match="lamina.LLM.chat takes them"):
        llm.chat([{"role": "user", "content": [{"type": "image", "image": "a.png"}]}])


def test_each_prompt_has_its_own_options(llm):
    params = [SamplingParams(temperature=0, max_tokens=count) for count in (3, 5, 7)]
    assert [len(o.outputs[0].token_ids) for o in llm.generate(PROMPTS, params)] == [3, 5, 7]
    with pytest.raises(lamina.InvalidRequestError, match="3 prompts"):
        llm.generate(PROMPTS, params[:2])


def test_several_answers_and_stops(llm):
    output = llm.generate(PROMPTS[0], SamplingParams(n=3, seed=5, max_tokens=6))[0]
    assert [answer.index for answer in output.outputs] == [0, 1, 2]
    assert len({answer.text for answer in output.outputs}) > 1
    stopped = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=40, stop=["little"]))[0].outputs[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", "little") and "little" not in stopped.text


def test_logprobs_are_dicts_of_tokens(llm, own):
    output = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=4, logprobs=2, prompt_logprobs=1))[0]
    answer = output.outputs[0]
    assert len(answer.logprobs) == len(answer.token_ids) == 4
    for token, row in zip(answer.token_ids, answer.logprobs):
        assert next(iter(row)) == token and len(row) == 2
        assert row[token].rank == 1 and row[token].decoded_token == own.detokenize([token])
    assert answer.cumulative_logprob == pytest.approx(sum(r[t].logprob for t, r in zip(answer.token_ids, answer.logprobs)))
    assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(output.prompt_token_ids)
    for token, row in zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:]):
        assert token in row
    assert not answer.text.startswith("Once"), "the prompt is no part of the answer"
    alone = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=1, logprobs=0))[0].outputs[0]
    assert len(alone.logprobs[0]) == 1


def test_answers_of_a_form(llm):
    form = StructuredOutputsParams(choice=["yes", "no"])
    answer = llm.generate("Is it?", SamplingParams(max_tokens=8, structured_outputs=form))[0].outputs[0]
    assert answer.text in ("yes", "no")
    with pytest.raises(lamina.InvalidRequestError, match="one of json"):
        SamplingParams(structured_outputs=StructuredOutputsParams())


def test_the_chat_program(llm, own):
    talk = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell one."}]
    greedy = SamplingParams(temperature=0, max_tokens=8)
    one = llm.chat(talk, greedy, use_tqdm=False, chat_template=TEMPLATE)
    two = llm.chat([talk, talk], sampling_params=greedy, chat_template=TEMPLATE)
    assert len(one) == 1 and [o.outputs[0].text for o in two] == [one[0].outputs[0].text] * 2
    assert one[0].prompt.endswith("assistant:")
    assert one[0].outputs[0].text == own.generate(one[0].prompt, max_tokens=8, temperature=0).text


def test_vectors_and_scores(llm, own):
    outputs = llm.embed(PROMPTS)
    vectors = own.embed(PROMPTS)
    assert outputs[1].outputs.embedding == pytest.approx(vectors[1].tolist()) and outputs[0].outputs.hidden_size == vectors.shape[1]
    scores = [o.outputs.score for o in llm.score(PROMPTS[0], PROMPTS)]
    assert scores == pytest.approx((vectors @ vectors[0]).tolist(), abs=1e-5) and scores[0] == pytest.approx(1, abs=1e-5)
    with pytest.raises(lamina.InvalidRequestError, match="as many"):
        llm.score(PROMPTS[:2], PROMPTS)


def test_beams_begin_with_the_prompt(llm, own):
    output = llm.beam_search([{"prompt": PROMPTS[0]}], BeamSearchParams(beam_width=3, max_tokens=5))[0]
    expected = own.beam(PROMPTS[0], width=3, max_tokens=5, n=3)
    assert [b.text for b in output.sequences] == [PROMPTS[0] + b.text for b in expected]
    assert [b.cum_logprob for b in output.sequences] == [b.cumulative_logprob for b in expected]
    before = own.tokenize(PROMPTS[0], special=True)
    assert output.sequences[0].tokens == before + list(expected[0].tokens)


def test_what_is_not_here_is_named(llm):
    with pytest.raises(lamina.UnsupportedError, match="pipeline_parallel_size=2"):
        LLM(model=None, pipeline_parallel_size=2)
    with pytest.raises(TypeError, match="no_such"):
        LLM(model=None, no_such=1)
    with pytest.raises(lamina.UnsupportedError, match="bad_words"):
        SamplingParams(bad_words=["x"])
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1)
    with pytest.raises(lamina.LaminaError, match="poet"):
        llm.generate("x", lora_request=LoRARequest("poet", 1, "folder"))
    with pytest.raises(lamina.InvalidRequestError, match="temperature=0.5"):
        BeamSearchParams(beam_width=2, max_tokens=2, temperature=0.5)


PUBLIC = """n best_of presence_penalty frequency_penalty repetition_penalty temperature top_p top_k min_p seed stop stop_token_ids
ignore_eos max_tokens min_tokens logprobs prompt_logprobs flat_logprobs detokenize skip_special_tokens
spaces_between_special_tokens include_stop_str_in_output truncate_prompt_tokens output_kind skip_clone structured_outputs
guided_decoding logit_bias allowed_token_ids bad_words extra_args skip_reading_prefix_cache thinking_token_budget
repetition_detection logits_processors""".split()
"""Fields of `SamplingParams` in vLLM's documentation, and in that of its older versions."""

ASKED = {
    "best_of": 3, "detokenize": False, "skip_special_tokens": False, "truncate_prompt_tokens": 8, "allowed_token_ids": [1],
    "bad_words": ["x"], "extra_args": {"a": 1}, "skip_reading_prefix_cache": True, "thinking_token_budget": 9,
    "repetition_detection": {"a": 1}, "logits_processors": [max],
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_every_field_is_known_or_refused_by_name(name):
    from lamina.compat.vllm.params import FIELDS

    params = SamplingParams()
    assert getattr(params, name) == FIELDS[name]
    if name in ASKED:
        with pytest.raises(lamina.UnsupportedError, match=f"^{name}="):
            SamplingParams(**{name: ASKED[name]})
        with pytest.raises(lamina.UnsupportedError, match=f"^{name}="):
            setattr(params, name, ASKED[name])
    else:
        SamplingParams(**{name: FIELDS[name]})
    assert {*FIELDS} == {*PUBLIC}


def test_fields_may_be_set_later(llm):
    params = SamplingParams(temperature=0)
    params.max_tokens, params.logprobs = 3, 1
    other = params.clone()
    other.max_tokens = 5
    params.stop_token_ids = [10**6]
    outputs = llm.generate(PROMPTS[:2], [params, other])
    assert [len(output.outputs[0].token_ids) for output in outputs] == [3, 5] and outputs[0].outputs[0].logprobs
    with pytest.raises(AttributeError, match="max_token'"):
        params.max_token = 3
    with pytest.raises(lamina.InvalidRequestError, match="top_p = 7"):
        params.top_p = 7.0
    assert params.top_p == 1.0 and SamplingParams.from_optional(n=None, top_k=None).max_tokens == 16
    assert "stop_token_ids=[1000000]" in repr(params) and "top_p" not in repr(params)


def test_tokens_end_answers_and_answers_have_a_least_length(llm, own):
    whole = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=12))[0].outputs[0]
    end = whole.token_ids[5]
    first = whole.token_ids.index(end)
    cut = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=12, stop_token_ids=[end]))[0].outputs[0]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", end) and len(cut.token_ids) <= first + 1
    params = SamplingParams(temperature=0, max_tokens=12, stop_token_ids=[end], min_tokens=first + 1)
    later = llm.generate(PROMPTS[0], params)[0].outputs[0]
    assert len(later.token_ids) > first
    word = own.detokenize(whole.token_ids).split()[2]
    held = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=12, stop=word, include_stop_str_in_output=True))
    assert held[0].outputs[0].text.endswith(word) and held[0].outputs[0].stop_reason == word
    ours = own.generate(PROMPTS[0], temperature=0, max_tokens=12, stop_token_ids=[end])
    assert ours.text == cut.text


def test_the_tokenizer_of_programs(llm, own):
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("Once upon")
    assert ids == own.tokenize("Once upon", special=True) and tokenizer.decode(ids) == "Once upon"
    talk = [{"role": "user", "content": "x"}]
    assert tokenizer.apply_chat_template(talk, tokenize=False, chat_template=TEMPLATE) == "user: x\n"
