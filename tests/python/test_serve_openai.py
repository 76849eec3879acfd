"""OpenAI's own client, unchanged, beside a live server."""

import base64
import math
import struct

import pytest

openai = pytest.importorskip("openai")
from openai.types import Completion, CreateEmbeddingResponse, Model  # noqa: E402
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
MESSAGES = [{"role": "user", "content": "Tell me a story."}]
GREEDY = {"model": "any", "temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def strict(kind, raw):
    """The body of a response, which must be one of that type in every field."""
    return kind.model_validate_json(raw.text if hasattr(raw, "text") else raw.content)


def test_chat(client):
    raw = client.chat.completions.with_raw_response.create(messages=MESSAGES, **GREEDY)
    answer = strict(ChatCompletion, raw.http_response)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length") and answer.id.startswith("chatcmpl-")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens <= usage.prompt_tokens + 12
    again = client.chat.completions.create(messages=MESSAGES, **GREEDY)
    assert again.choices[0].message.content == choice.message.content
    assert again.usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens


def test_a_stream_adds_up_to_the_whole_answer(client):
    whole = client.chat.completions.create(messages=MESSAGES, **GREEDY)
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(messages=MESSAGES, stream=True, stream_options=options, **GREEDY))
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump())
    assert len({chunk.id for chunk in chunks}) == 1
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_key_of_the_client_makes_a_request_the_same_again(client):
    def ask(key):
        body = {"model": "any", "prompt": "Once", "temperature": 1, "max_tokens": 24}
        answer = client.completions.create(**body, extra_headers={"Idempotency-Key": key})
        return answer.id, answer.choices[0].text

    one, again, other = ask("one"), ask("one"), ask("other")
    assert one == again and one[0] != other[0] and one[1] != other[1]


def test_several_answers(client):
    options = {**GREEDY, "temperature": 1.0}
    answer = client.chat.completions.create(messages=MESSAGES, n=3, seed=7, **options)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(messages=MESSAGES, n=3, seed=7, stream=True, **options):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == [c.message.content for c in answer.choices], "a seed decides all answers"
    assert len(set(streamed)) > 1


def test_logprobs(client):
    answer = client.chat.completions.create(messages=MESSAGES, logprobs=True, top_logprobs=3, **GREEDY)
    entries = answer.choices[0].logprobs.content
    assert len(entries) in (answer.usage.completion_tokens, answer.usage.completion_tokens - 1)
    for entry in entries:
        assert len(entry.top_logprobs) == 3 and entry.logprob <= 0
        assert math.isclose(max(t.logprob for t in entry.top_logprobs), entry.logprob, abs_tol=1e-5), "greedy"
    joined = b"".join(bytes(entry.bytes) for entry in entries).decode(errors="ignore")
    assert joined.strip().startswith(answer.choices[0].message.content.strip()[:8])


def test_stop_strings_never_appear(client):
    whole = client.chat.completions.create(messages=MESSAGES, **GREEDY).choices[0].message.content
    stop = whole.strip().split()[2]
    answer = client.chat.completions.create(messages=MESSAGES, stop=stop, **GREEDY)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == whole[: whole.index(stop)]
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(messages=MESSAGES, stop=[stop, "@@"], stream=True, **GREEDY)
        if chunk.choices
    ]
    assert "".join(pieces) == whole[: whole.index(stop)]


def test_completions(client):
    raw = client.completions.with_raw_response.create(prompt="Once upon a time", logprobs=2, **GREEDY)
    answer = strict(Completion, raw.http_response)
    choice = answer.choices[0]
    assert choice.text and answer.id.startswith("cmpl-")
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset)
    echoed = client.completions.create(prompt="Once upon a time", echo=True, **GREEDY).choices[0].text
    assert echoed == "Once upon a time" + choice.text
    several = client.completions.create(prompt=["Once upon a time", "The end"], **GREEDY)
    assert [c.index for c in several.choices] == [0, 1] and several.choices[0].text == choice.text
    pieces = client.completions.create(prompt="Once upon a time", stream=True, **GREEDY)
    assert "".join(c.choices[0].text for c in pieces if c.choices) == choice.text


def test_a_prompt_is_scored(client):
    options = {**GREEDY, "max_tokens": 0}
    answer = client.completions.create(prompt="Once upon a time", echo=True, logprobs=1, **options)
    logprobs = answer.choices[0].logprobs.token_logprobs
    assert logprobs[0] is None and all(value <= 0 for value in logprobs[1:]) and len(logprobs) > 2
    assert answer.usage.completion_tokens == 0


def test_embeddings(client):
    texts = ["a dog", "a cat"]
    raw = client.embeddings.with_raw_response.create(model="any", input=texts, encoding_format="float")
    answer = strict(CreateEmbeddingResponse, raw.http_response)
    assert [item.index for item in answer.data] == [0, 1] and answer.usage.prompt_tokens > 0
    # The client asks for base64 by itself, and decodes it.
    default = client.embeddings.create(model="any", input=texts)
    for one, other in zip(answer.data, default.data):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
        assert math.isclose(math.hypot(*one.embedding), 1.0, rel_tol=1e-4)
    short = client.embeddings.create(model="any", input="a dog", dimensions=8, encoding_format="float")
    assert len(short.data[0].embedding) == 8 and math.isclose(math.hypot(*short.data[0].embedding), 1.0, rel_tol=1e-4)
    raw = client.embeddings.with_raw_response.create(model="any", input="a dog", encoding_format="base64")
    vector = base64.b64decode(raw.http_response.json()["data"][0]["embedding"])
    assert struct.unpack(f"<{len(vector) // 4}f", vector) == pytest.approx(answer.data[0].embedding, abs=1e-6)


def test_models(client):
    models = client.models.list().data
    assert models and Model.model_validate(models[0].model_dump())
    assert client.models.retrieve(models[0].id).id == models[0].id


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"temperature": "hot"}, "temperature"),
        ({"extra_body": {"temprature": 1}}, "temprature"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content[0]"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stop": [""]}, "stop[0]"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"extra_body": {"audio": {}}}, "audio"),
        ({"model": ""}, "model"),
    ],
)
def test_refused_fields_are_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(**{"messages": MESSAGES, **GREEDY, **fields})
    assert refusal.value.param == param, refusal.value.message
    assert refusal.value.body["type"] == "invalid_request_error"


def test_a_prompt_that_is_too_long(client):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.completions.create(prompt="a b c " * 20000, **GREEDY)
    body = refusal.value.body
    assert refusal.value.code == "context_length_exceeded" and body["n_prompt_tokens"] > body["n_ctx"]


def test_harmless_fields_are_named_in_a_header(client):
    raw = client.chat.completions.with_raw_response.create(messages=MESSAGES, user="me", metadata={"a": "b"}, **GREEDY)
    assert set(raw.headers["x-lamina-ignored"].replace(" ", "").split(",")) == {"user", "metadata"}
    assert raw.headers["x-request-id"]


def test_errors_of_http(server):
    assert server.get("/v1/nothing")[0] == 404
    status, headers, text = server.request("/v1/chat/completions")
    assert status == 405 and headers["allow"] == "POST" and '"error"' in text
    assert server.request("/v1/chat/completions", b"{", {"content-type": "application/json"})[0] == 400
    assert server.request("/v1/chat/completions", b"{}", {"content-type": "text/plain"})[0] == 415
    status, _, _ = server.request("/v1/chat/completions", {"messages": MESSAGES}, {"origin": "https://evil.example"})
    assert status == 403


def test_an_answer_is_what_the_library_gives(client):
    import lamina

    with lamina.LLM(progress=False) as llm:
        own = llm.generate("Once upon a time", max_tokens=16, temperature=0.9, seed=11).text
    answer = client.completions.create(model="any", prompt="Once upon a time", max_tokens=16, temperature=0.9, seed=11)
    assert answer.choices[0].text == own


def test_the_asynchronous_client(server):
    import asyncio

    async def ask():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(messages=MESSAGES, stream=True, **GREEDY)
            streamed = "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
            whole = await asyncio.gather(*[client.chat.completions.create(messages=MESSAGES, **GREEDY) for _ in range(8)])
            return streamed, {answer.choices[0].message.content for answer in whole}

    streamed, whole = asyncio.run(ask())
    assert whole == {streamed}
