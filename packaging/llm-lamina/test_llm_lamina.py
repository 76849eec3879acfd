"""The plugin in `llm` itself: `pip install llm pytest`, this folder, and Lamina."""

import asyncio
import json
import subprocess
import sys

import lamina
import llm
import pytest

MODEL = "lamina/builtin"
PROMPT = "Once upon a time"


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """llm's logs and aliases are not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLM_USER_PATH", str(tmp_path_factory.mktemp("llm")))
        yield


@pytest.fixture(scope="module")
def own():
    with lamina.LLM(progress=False) as model:
        yield model


def expected(own, prompt=PROMPT, **options):
    return own.chat([{"role": "user", "content": prompt}], temperature=0, **options)


def command(*words, **more):
    return subprocess.run([sys.executable, "-m", "llm", *words], capture_output=True, text=True, timeout=300, **more)


def test_the_command_lists_and_answers(own):
    listed = command("models", "list", "-q", "lamina")
    assert listed.returncode == 0 and "Lamina: lamina/builtin" in listed.stdout, listed.stderr
    done = command("-m", MODEL, PROMPT, "-o", "temperature", "0", "-o", "max_tokens", "8", "-o", "logprobs", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == expected(own, max_tokens=8).text.rstrip("\n")
    log = json.loads(command("logs", "--json").stdout)[0]
    assert log["model"] == MODEL and log["output_tokens"] == 8


def test_answers_stream(own):
    response = llm.get_model(MODEL).prompt(PROMPT, temperature=0, max_tokens=8, logprobs=2)
    pieces = list(response)
    answer = expected(own, max_tokens=8, logprobs=2)
    assert len(pieces) > 3 and "".join(pieces) == answer.text
    rows = response.json()["logprobs"]
    assert [row["token"] for row in rows] == answer.tokens and all(len(row["top"]) == 2 for row in rows)
    assert response.usage().output == 8


def test_conversations_hold_what_was_said(own):
    talk = llm.get_model(MODEL).conversation()
    first = talk.prompt(PROMPT, system="Tell stories.", temperature=0, max_tokens=6).text()
    second = talk.prompt("And then?", temperature=0, max_tokens=6).text()
    messages = [
        {"role": "system", "content": "Tell stories."}, {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": first}, {"role": "user", "content": "And then?"},
    ]  # fmt: skip
    assert second == own.chat(messages, temperature=0, max_tokens=6).text


def test_answers_are_awaited(own):
    async def run():
        model = llm.get_async_model(MODEL)
        both = [model.prompt(text, temperature=0, max_tokens=6) for text in (PROMPT, "The dog")]
        return await asyncio.gather(*(one.text() for one in both))

    assert asyncio.run(run()) == [expected(own, text, max_tokens=6).text for text in (PROMPT, "The dog")]


def test_schemas_hold():
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    answer = llm.get_model(MODEL).prompt(PROMPT, schema=schema, max_tokens=40).text()
    assert json.loads(answer)["n"] in (1, 2)


def test_vectors(own):
    model = llm.get_embedding_model(MODEL)
    assert model.embed(PROMPT) == pytest.approx(own.embed(PROMPT).tolist())
    assert len(list(model.embed_multi(["a", "b"]))) == 2


def test_wrong_options_are_told():
    done = command("-m", MODEL, PROMPT, "-o", "no_such", "1")
    assert done.returncode != 0 and "no_such" in done.stderr
