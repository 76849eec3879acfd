"""Tools, reasoning and forms of answers in all dialects, with the makers' own clients beside a live server."""

import json

import pytest
from serving import Live

pytestmark = pytest.mark.filterwarnings("default")
# Calls as Hermes writes them, and a thought where it is asked for.
TEMPLATE = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if tools %}<tool_call>{"name": the tool's name, "arguments": {}}</tool_call> calls {{ tools | length }} tools
{% endif %}assistant: {% if enable_thinking %}<think>
{% endif %}"""
MESSAGES = [{"role": "user", "content": "Is it raining?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "rain", "description": "d", "parameters": SCHEMA}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}}
VERDICT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}

LONGEST = 600
"""Tokens that hold each of these answers with the most white space that a grammar lets a weak model write."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    template = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE)
    with Live("--chat-template", template) as live:
        yield live


@pytest.fixture(scope="module")
def openai_client(server):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def is_rain(arguments):
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return value["city"] in ("Rome", "Oslo") and 0 <= value["days"] <= 99 and len(value) == 2


def is_verdict(text):
    return json.loads(text)["ok"] in (True, False)


NAMED = {"type": "function", "function": {"name": "rain"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_openai_calls(openai_client, choice):
    asked = dict(model="any", messages=MESSAGES, tools=[TOOL, NOW], tool_choice=choice, max_tokens=LONGEST, seed=3)
    answer = openai_client.chat.completions.create(**asked, parallel_tool_calls=False).choices[0]
    assert answer.finish_reason == "tool_calls" and len(answer.message.tool_calls) == 1 and answer.message.content is None
    call = answer.message.tool_calls[0]
    assert call.function.name == "now" or is_rain(call.function.arguments)
    assert choice == "required" or call.function.name == "rain"
    name, arguments, reason = "", "", None
    for chunk in openai_client.chat.completions.create(**asked, parallel_tool_calls=False, stream=True):
        for delta in chunk.choices[0].delta.tool_calls or []:
            name += delta.function.name or ""
            arguments += delta.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (name, arguments, reason) == (call.function.name, call.function.arguments, "tool_calls")
    result = {"role": "tool", "tool_call_id": call.id, "content": "yes"}
    more = [*MESSAGES, answer.message.to_dict(), result]
    assert openai_client.chat.completions.create(model="any", messages=more, max_tokens=2, tools=[TOOL]).choices


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "v", "schema": VERDICT, "strict": True}}},
        {"response_format": {"type": "json_object", "schema": VERDICT}},
        {"extra_body": {"json_schema": VERDICT}},
        {"extra_body": {"guided_json": VERDICT}},
        {"extra_body": {"structured_outputs": {"json": VERDICT}}},
        {"extra_body": {"grammar": 'root ::= "{\\"ok\\": " ("true" | "false") "}"'}},
        {"extra_body": {"guided_regex": r"\{\"ok\": (true|false)\}"}},
        {"extra_body": {"guided_choice": ['{"ok": true}', '{"ok": false}']}},
    ],
    ids=lambda form: "-".join(form.get("extra_body", form)),
)
def test_openai_forms(openai_client, server, form):
    answer = openai_client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=LONGEST, seed=1, **form).choices[0]
    assert answer.finish_reason == "stop" and is_verdict(answer.message.content)
    fields = {**form, **form.get("extra_body", {})}
    fields.pop("extra_body", None)
    _, plain = server.post("/v1/completions", {"prompt": "Well: ", "max_tokens": 200, "seed": 2, **fields})
    assert is_verdict(plain["choices"][0]["text"])
    _, native = server.post("/completion", {"prompt": "Well: ", "n_predict": 200, "seed": 2, **fields})
    assert is_verdict(native["content"])


def test_openai_json_mode_and_answers_beside_tools(openai_client):
    asked = dict(model="any", messages=MESSAGES, max_tokens=300, seed=5)
    answer = openai_client.chat.completions.create(**asked, response_format={"type": "json_object"}).choices[0]
    assert answer.finish_reason == "length" or isinstance(json.loads(answer.message.content), dict)
    form = {"type": "json_schema", "json_schema": {"name": "v", "schema": VERDICT}}
    both = openai_client.chat.completions.create(**asked, response_format=form, tools=[TOOL]).choices[0].message
    assert is_rain(both.tool_calls[0].function.arguments) if both.tool_calls else is_verdict(both.content)


def test_openai_responses(openai_client):
    asked = dict(model="any", input="Is it raining?", max_output_tokens=LONGEST, reasoning={"effort": "none"})
    form = {"format": {"type": "json_schema", "name": "v", "schema": VERDICT, "strict": True}}
    assert is_verdict(openai_client.responses.create(**asked, text=form).output_text)
    tool = {"type": "function", "name": "rain", "parameters": SCHEMA, "strict": True}
    called = openai_client.responses.create(**asked, tools=[tool], tool_choice={"type": "function", "name": "rain"})
    assert called.output[-1].type == "function_call" and is_rain(called.output[-1].arguments)


def test_streamed_responses_are_the_whole_ones(openai_client):
    asked = dict(model="any", input="Is it raining?", max_output_tokens=LONGEST, reasoning={"effort": "none"}, extra_body={"seed": 3})
    tool = {"type": "function", "name": "rain", "parameters": SCHEMA, "strict": True}
    for more in ({"tools": [tool], "tool_choice": "required"}, {"text": {"format": {"type": "json_schema", "name": "v", "schema": VERDICT}}}):
        whole = openai_client.responses.create(**asked, **more)
        events = list(openai_client.responses.create(**asked, **more, stream=True))
        streamed = events[-1].response

        def said(response):
            return [item.to_dict() | {"id": "", "call_id": ""} for item in response.output]

        assert said(streamed) == said(whole)
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert [item.to_dict() for item in done] == [item.to_dict() for item in streamed.output]
        assert {item.type for item in streamed.output} == {"function_call" if "tools" in more else "message"}


def test_responses_are_gone_on_from_by_their_items(openai_client, server):
    first = openai_client.responses.create(model="any", input="Hello", max_output_tokens=4)
    listed = openai_client.responses.input_items.list(first.id).data
    assert [item.to_dict()["content"] for item in listed] == [[{"type": "input_text", "text": "Hello"}]]
    items = [{"role": "user", "content": "Hello"}, {"type": "item_reference", "id": first.output[-1].id}, {"role": "user", "content": "And?"}]
    second = openai_client.responses.create(model="any", input=items, max_output_tokens=4)
    spelled = [*items[:1], {"role": "assistant", "content": first.output_text}, *items[2:]]
    counted = [server.post("/v1/responses/input_tokens", {"model": "any", "input": one})[1]["input_tokens"] for one in (items, spelled)]
    assert counted == [second.usage.input_tokens] * 2
    page = openai_client.responses.input_items.list(second.id, limit=2, order="asc")
    assert page.has_more and [item.to_dict()["content"][0]["text"] for item in page.data] == ["Hello", first.output_text]
    assert server.request("/v1/responses/resp_nothing/input_items")[0] == 404


def test_a_thought_ends_with_its_budget(server):
    body = {"model": "any", "messages": MESSAGES, "max_tokens": LONGEST, "seed": 1, "json_schema": VERDICT}
    thinking = {**body, "chat_template_kwargs": {"enable_thinking": True}, "reasoning_budget": 6}
    _, answer = server.post("/v1/chat/completions", thinking)
    message = answer["choices"][0]["message"]
    assert is_verdict(message["content"]) and message["reasoning_content"]
    assert 6 <= answer["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 20
    _, none = server.post("/v1/chat/completions", {**body, "reasoning_effort": "none"})
    assert is_verdict(none["choices"][0]["message"]["content"])


def test_anthropic(server):
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        check_anthropic(client)


def check_anthropic(client):
    free = dict(model="any", messages=MESSAGES, max_tokens=LONGEST)
    # Without seeds a model by chance opens a thought that has no end.
    asked = dict(**free, thinking={"type": "disabled"})
    tools = [{"name": "rain", "input_schema": SCHEMA}, {"name": "now", "input_schema": {"type": "object", "additionalProperties": False}}]
    called = client.messages.create(**asked, tools=tools, tool_choice={"type": "tool", "name": "rain"})
    assert called.stop_reason == "tool_use" and [b.type for b in called.content] == ["tool_use"]
    assert called.content[0].name == "rain" and is_rain(called.content[0].input)
    some = client.messages.create(**asked, tools=tools, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert some.stop_reason == "tool_use" and len(some.content) == 1
    with client.messages.stream(**asked, tools=tools, tool_choice={"type": "any"}) as stream:
        final = stream.get_final_message()
    assert final.stop_reason in ("tool_use", "max_tokens") and final.content[0].type == "tool_use"
    body = {"output_config": {"format": {"type": "json_schema", "schema": VERDICT}}}
    formed = client.messages.create(**asked, extra_body=body)
    assert formed.stop_reason == "end_turn" and is_verdict(formed.content[0].text)
    thought = client.messages.create(**free, extra_body={**body, "thinking": {"type": "enabled", "budget_tokens": 7}})
    assert [block.type for block in thought.content] == ["thinking", "text"] and is_verdict(thought.content[1].text)


def test_ollama(server):
    ollama = pytest.importorskip("ollama")
    with ollama.Client(host=server.url) as client:
        check_ollama(client)


def check_ollama(client):
    options = {"num_predict": LONGEST, "seed": 4}
    formed = client.chat(model="any", messages=MESSAGES, format=VERDICT, options=options)
    assert is_verdict(formed.message.content) and formed.done_reason == "stop"
    generated = client.generate(model="any", prompt="Well?", format=VERDICT, options=options)
    assert is_verdict(generated.response)
    anything = client.generate(model="any", prompt="Well?", format="json", options=options)
    assert anything.response.lstrip().startswith("{")
    thought = client.chat(model="any", messages=MESSAGES, think=False, format=VERDICT, options=options)
    assert is_verdict(thought.message.content) and not thought.message.thinking


@pytest.mark.parametrize(
    "path, fields, param, words",
    [
        ("chat/completions", {"json_schema": {"uniqueItems": True}}, "json_schema", "uniqueItems at the root"),
        (
            "chat/completions",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"type": 1}}}}}},
            "response_format.json_schema.schema",
            "/properties/a",
        ),
        ("chat/completions", {"response_format": {"type": "yaml"}}, "response_format.type", "json_schema"),
        ("chat/completions", {"grammar": 'root ::= ("a"'}, "grammar", "line 1"),
        ("chat/completions", {"guided_regex": "(?=a)"}, "guided_regex", "regex"),
        ("chat/completions", {"json_schema": {}, "grammar": 'root ::= "a"'}, "grammar", "json_schema"),
        ("chat/completions", {"structured_outputs": {}}, "structured_outputs", "one of"),
        ("chat/completions", {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "f,"),
        ("chat/completions", {"tool_choice": "required"}, "tools", "no tools"),
        (
            "chat/completions",
            {"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"properties": {"a": {"uniqueItems": True}}}}}]},
            "tools",
            "uniqueItems",
        ),
        ("completions", {"prompt": "a", "json_schema": False}, "json_schema", "no text satisfies"),
    ],
)
def test_what_cannot_be_enforced_is_refused(server, path, fields, param, words):
    body = {"messages": MESSAGES, **fields} if path.startswith("chat") else fields
    status, _, text = server.request("/v1/" + path, body)
    error = json.loads(text)["error"]
    assert (status, error["param"]) == (400, param) and words in error["message"], error
