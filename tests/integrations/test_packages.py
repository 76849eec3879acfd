"""Real packages from their index against a live server."""

import json

import pytest

TOOL = {
    "type": "function",
    "function": {
        "name": "rain",
        "description": "Whether it rains",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
MODEL = "lamina-tiny"


@pytest.mark.package("openai", "`OpenAI(base_url=.., api_key=..)`")
def test_openai(base):
    """Chat, stream, tools, structured output, embeddings, Responses."""
    from openai import OpenAI
    from pydantic import BaseModel

    class Answer(BaseModel):
        yes: bool

    client = OpenAI(base_url=base, api_key="none")
    hello = [{"role": "user", "content": "Hello"}]
    assert client.chat.completions.create(model=MODEL, messages=hello, max_tokens=8).usage.completion_tokens > 0
    stream = client.chat.completions.create(model=MODEL, messages=hello, max_tokens=8, stream=True)
    assert len([chunk for chunk in stream if chunk.choices]) > 3
    told = client.chat.completions.create(model=MODEL, messages=hello, tools=[TOOL], tool_choice="required")
    assert json.loads(told.choices[0].message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Rome")
    parsed = client.chat.completions.parse(model=MODEL, messages=hello, response_format=Answer)
    assert parsed.choices[0].message.parsed.yes in (True, False)
    assert len(client.embeddings.create(model=MODEL, input=["a", "b"]).data) == 2
    assert client.responses.create(model=MODEL, input="Hello", max_output_tokens=8).output_text
    assert MODEL in [model.id for model in client.models.list()]


@pytest.mark.package("anthropic", "`Anthropic(base_url=..)`")
def test_anthropic(server):
    """Messages, stream, tools."""
    from anthropic import Anthropic

    client = Anthropic(base_url=server.url, api_key="none")
    hello = [{"role": "user", "content": "Hello"}]
    assert client.messages.create(model=MODEL, max_tokens=8, messages=hello).usage.output_tokens > 0
    with client.messages.stream(model=MODEL, max_tokens=8, messages=hello) as stream:
        assert "".join(stream.text_stream) == stream.get_final_text()
    function = TOOL["function"]
    tool = {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}
    told = client.messages.create(model=MODEL, max_tokens=400, messages=hello, tools=[tool], tool_choice={"type": "any"})
    assert next(block for block in told.content if block.type == "tool_use").input["city"] in ("Oslo", "Rome")


@pytest.mark.package("ollama", "`Client(host=..)`, `OLLAMA_HOST`")
def test_ollama(server):
    """Chat, stream, generate, schema, embed, list, show."""
    from ollama import Client

    client = Client(host=server.url)
    hello = [{"role": "user", "content": "Hello"}]
    assert client.chat(MODEL, messages=hello, options={"num_predict": 8}).message.content is not None
    assert len(list(client.chat(MODEL, messages=hello, options={"num_predict": 8}, stream=True))) > 3
    form = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}
    assert json.loads(client.generate(MODEL, prompt="Is it?", format=form).response)["yes"] in (True, False)
    assert len(client.embed(MODEL, input=["a", "b"]).embeddings) == 2
    assert client.list().models[0].model.startswith(MODEL) and client.show(MODEL).details is not None


@pytest.mark.package("langchain-openai", "`ChatOpenAI(base_url=..)`, `OpenAIEmbeddings(check_embedding_ctx_length=False)`")
def test_langchain(base):
    """A chain of three, stream, tools, structured output, embeddings."""
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    from pydantic import BaseModel

    class Answer(BaseModel):
        """An answer."""

        yes: bool

    chat = ChatOpenAI(base_url=base, api_key="none", model=MODEL, max_tokens=16, temperature=0)
    chain = ChatPromptTemplate.from_template("Tell of {thing}") | chat | StrOutputParser()
    assert chain.invoke({"thing": "a dog"})
    assert len(list(chain.stream({"thing": "a dog"}))) > 3
    called = ChatOpenAI(base_url=base, api_key="none", model=MODEL).bind_tools([TOOL], tool_choice="required").invoke("Does it rain?")
    assert called.tool_calls[0]["args"]["city"] in ("Oslo", "Rome")
    structured = ChatOpenAI(base_url=base, api_key="none", model=MODEL, max_tokens=400).with_structured_output(Answer, method="json_schema")
    assert structured.invoke("Is it day?").yes in (True, False)
    # With its check it sends token ids of OpenAI's own vocabulary.
    vectors = OpenAIEmbeddings(base_url=base, api_key="none", model=MODEL, check_embedding_ctx_length=False)
    assert len(vectors.embed_documents(["a", "b"])) == 2


@pytest.mark.package("llama-index-llms-openai-like", "`OpenAILike(api_base=.., is_chat_model=True)`")
def test_llama_index(base):
    """A query engine over three texts, chat, stream."""
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(model=MODEL, api_base=base, api_key="none", is_chat_model=True, max_tokens=16, context_window=2048)
    assert llm.chat([ChatMessage(role="user", content="Hello")]).message.content is not None
    assert len(list(llm.stream_complete("Once"))) > 3
    embed = OpenAILikeEmbedding(model_name=MODEL, api_base=base, api_key="none")
    texts = [Document(text=text) for text in ("Roses are red.", "The sky is blue.", "The bread is in the box.")]
    index = VectorStoreIndex.from_documents(texts, embed_model=embed)
    found = index.as_query_engine(llm=llm, similarity_top_k=2).query("Where is the bread?")
    assert len(found.source_nodes) == 2


@pytest.mark.package("litellm", "`openai/..`, `hosted_vllm/..`, `ollama_chat/..`")
def test_litellm(server, base):
    """Three prefixes, stream, tools."""
    import litellm

    hello = [{"role": "user", "content": "Hello"}]
    for prefix, address in (("openai", base), ("hosted_vllm", base), ("ollama_chat", server.url)):
        ask = {"model": f"{prefix}/{MODEL}", "messages": hello, "api_base": address, "api_key": "none", "max_tokens": 8}
        assert litellm.completion(**ask).usage.completion_tokens > 0, prefix
        assert len(list(litellm.completion(**ask, stream=True))) > 3, prefix
    told = litellm.completion(
        model=f"openai/{MODEL}", messages=hello, api_base=base, api_key="none", tools=[TOOL], tool_choice="required", max_tokens=400
    )
    assert json.loads(told.choices[0].message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Rome")


@pytest.mark.package("instructor", "`instructor.from_openai(client)`")
def test_instructor(base):
    """A model of pydantic without a retry, by tools."""
    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class Answer(BaseModel):
        yes: bool

    client = instructor.from_openai(OpenAI(base_url=base, api_key="none"), mode=instructor.Mode.TOOLS)
    hello = [{"role": "user", "content": "Is it day?"}]
    # The small model may write blanks between tokens until its limit: a seed that it does not with.
    ask = {"model": MODEL, "messages": hello, "response_model": Answer, "max_retries": 0, "max_tokens": 400, "seed": 1}
    assert client.chat.completions.create(**ask).yes in (True, False)


@pytest.mark.package("haystack-ai", "`OpenAIChatGenerator(api_base_url=..)`")
def test_haystack(base):
    """A pipeline of a prompt and a chat."""
    from haystack import Pipeline
    from haystack.components.builders import ChatPromptBuilder
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    pipeline = Pipeline()
    pipeline.add_component("prompt", ChatPromptBuilder(template=[ChatMessage.from_user("Tell of {{thing}}")], required_variables=["thing"]))
    chat = OpenAIChatGenerator(api_key=Secret.from_token("none"), model=MODEL, api_base_url=base, generation_kwargs={"max_tokens": 8})
    pipeline.add_component("chat", chat)
    pipeline.connect("prompt", "chat")
    assert pipeline.run({"prompt": {"thing": "a dog"}})["chat"]["replies"][0].text is not None


@pytest.mark.package("outlines", "`outlines.from_openai(client, model)`")
def test_outlines(base):
    """A model of pydantic."""
    import outlines
    from openai import OpenAI
    from pydantic import BaseModel

    class Answer(BaseModel):
        yes: bool

    model = outlines.from_openai(OpenAI(base_url=base, api_key="none"), MODEL)
    assert Answer.model_validate_json(model("Is it day?", Answer, max_tokens=400, temperature=0)).yes in (True, False)


def test_the_notebook_runs(tmp_path):
    """Of the examples, without an error in any cell, and its outputs are not kept."""
    from pathlib import Path

    import nbformat
    from nbclient import NotebookClient

    path = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [out.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("Once upon a time" in text for text in texts) and not any("\r" in text for text in texts)
