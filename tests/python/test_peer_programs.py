"""Programs as users of llama-cpp-python and vLLM write them: only the module's name in their import lines is another one.

Each makes the calls of one of the peer's published examples, which it names; texts and shapes are ours.
"""

import contextlib
import io
import re

import lamina
import pytest
from hub import Hub

from conftest import PACKAGED

LLAMA_CPP = {
    "high_level_api_inference": (
        """
import json
from llama_cpp import Llama

llm = Llama(model_path=MODEL)
output = llm("Question: What is red? Answer: ", max_tokens=12, stop=["Question:", "\\n"], echo=True)
print(json.dumps(output, indent=2))
""",
        r'"object": "text_completion",\n.*"text": "Question: What is red\? Answer: ',
    ),
    "high_level_api_streaming": (
        """
import copy, json
from llama_cpp import Llama

llm = Llama(model_path=MODEL)
stream = llm("Question: What is red? Answer: ", max_tokens=8, stop=["Question:", "\\n"], stream=True)
for output in stream:
    fragment = copy.deepcopy(output)
    print(json.dumps(fragment, indent=2))
""",
        r'"finish_reason": null.*"finish_reason": "(length|stop)"',
    ),
    "high_level_api_embedding": (
        """
from llama_cpp import Llama

llm = Llama(model_path=MODEL, embedding=True)
made = llm.create_embedding("Hello")
print(made["object"], len(made["data"][0]["embedding"]), len(llm.embed(["a", "b"])))
""",
        "^list 256 2$",
    ),
    "simple_local_chat": (
        """
from llama_cpp import Llama

llm = Llama(model_path=MODEL, n_ctx=256, n_gpu_layers=-1, chat_format="chatml", verbose=False)
history = [{"role": "system", "content": "You tell stories."}]
for line in ("Tell one.", "And then?"):
    history.append({"role": "user", "content": line})
    answer = llm.create_chat_completion(history, max_tokens=6, temperature=0.7, repeat_penalty=1.1)
    history.append(answer["choices"][0]["message"])
print([one["role"] for one in history])
""",
        r"\['system', 'user', 'assistant', 'user', 'assistant'\]",
    ),
    "hf_pull": (
        """
import json
import llama_cpp

llama = llama_cpp.Llama.from_pretrained(repo_id="org/model", filename="*q8_0.gguf", verbose=False)
response = llama.create_chat_completion(
    messages=[{"role": "user", "content": "What is it?"}],
    response_format={"type": "json_object", "schema": {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}},
    stream=True,
)
text = ""
for chunk in response:
    delta = chunk["choices"][0]["delta"]
    if "content" not in delta:
        continue
    text += delta["content"]
print(type(json.loads(text)["yes"]))
""",
        "bool",
    ),
    "gradio_chat/local": (
        """
import llama_cpp

llama = llama_cpp.Llama(MODEL, seed=1, verbose=False)

def predict(message, history):
    messages = [{"role": role, "content": text} for pair in history for role, text in zip(("user", "assistant"), pair)]
    messages.append({"role": "user", "content": message})
    response = llama.create_chat_completion_openai_v1(model="any", messages=messages, stream=True, max_tokens=6)
    text = ""
    for chunk in response:
        content = chunk.choices[0].delta.content
        if content:
            text += content
            yield text

print(list(predict("Hello", [["Hi", "Yes?"]]))[-1] != "")
print(llama.create_chat_completion_openai_v1([{"role": "user", "content": "Hi"}], max_tokens=3).choices[0].message.role)
""",
        "^True\nassistant$",
    ),
    "langchain_custom_llm": (
        """
from llama_cpp import Llama

class Chain:
    def __init__(self, model_path, **kwargs):
        self.llm = Llama(model_path=model_path, **kwargs)

    def _call(self, prompt, stop=None):
        return self.llm(prompt, stop=stop or [])["choices"][0]["text"]

chain = Chain(MODEL, seed=1)
print(bool(chain._call("Question: What is red? Answer: ", stop=["Question:", "\\n"]) + chain._call("Once")))
""",
        "True",
    ),
    "README, speculative decoding": (
        """
from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

llama = Llama(model_path=MODEL, draft_model=LlamaPromptLookupDecoding(num_pred_tokens=10))
print(llama("Once upon a time", max_tokens=8, temperature=0)["usage"]["completion_tokens"])
""",
        "^8$",
    ),
    "README, grammar and tools": (
        """
import json
from llama_cpp import Llama, LlamaGrammar

llm = Llama(model_path=MODEL, chat_format="chatml", verbose=False)
grammar = LlamaGrammar.from_json_schema(json.dumps({"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}))
print(json.loads(llm("Number: ", grammar=grammar, max_tokens=-1)["choices"][0]["text"])["n"] in (1, 2))
""",
        "True",
    ),
}
VLLM = {
    "basic/basic": (
        """
from vllm import LLM, SamplingParams

prompts = ["Once upon a time", "The little dog", "The sun", "Lily and Tom"]
sampling_params = SamplingParams(temperature=0.8, top_p=0.95)

def main():
    llm = LLM(model=MODEL)
    outputs = llm.generate(prompts, sampling_params)
    for output in outputs:
        prompt = output.prompt
        generated_text = output.outputs[0].text
        print(f"{prompt!r} {generated_text!r}")

main()
""",
        r"^'Once upon a time' .+\n'The little dog' .+\n'The sun' .+\n'Lily and Tom' .+$",
    ),
    "basic/chat": (
        """
from vllm import LLM

llm = LLM(model=MODEL, max_model_len=256)
sampling_params = llm.get_default_sampling_params()
sampling_params.max_tokens = 6
sampling_params.temperature = 0.5
conversation = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Write."}]
print(len(llm.chat(conversation, sampling_params, use_tqdm=False)))
conversations = [conversation for _ in range(10)]
print(len(llm.chat(conversations, sampling_params, use_tqdm=True)))
template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
for output in llm.chat(conversations[:1], sampling_params, use_tqdm=False, chat_template=template):
    print(output.prompt.endswith("user: Write. "))
""",
        "^1\n10\nTrue$",
    ),
    "basic/embed": (
        """
from vllm import LLM

model = LLM(model=MODEL, runner="pooling", enforce_eager=True)
for output in model.embed(["Hello, my name is", "The sun"]):
    embeds = output.outputs.embedding
    print(len(embeds), str(embeds[:16])[:-1][:1])
""",
        r"^256 \[\n256 \[$",
    ),
    "basic/score": (
        """
from vllm import LLM

model = LLM(model=MODEL, enforce_eager=True)
for text, output in zip(["A dog.", "The sun."], model.score("A dog.", ["A dog.", "The sun."])):
    print(f"{text} {output.outputs.score:.2f}")
""",
        r"^A dog\. 1\.00\nThe sun\. 0?-?\d?\.\d\d$",
    ),
    "prefix_caching": (
        """
from vllm import LLM, SamplingParams

prefix = "Once upon a time there was a little girl named Lily who loved to play outside in the park. "
prompts = [prefix + end for end in ("One day", "Her mom", "A dog")]
sampling_params = SamplingParams(temperature=0.0)
regular_llm = LLM(model=MODEL, gpu_memory_utilization=0.4)
regular = [output.outputs[0].text for output in regular_llm.generate(prompts, sampling_params)]
del regular_llm
prefix_cached_llm = LLM(model=MODEL, enable_prefix_caching=True, gpu_memory_utilization=0.4)
prefix_cached_llm.generate(prompts[0], sampling_params)
cached = [output.outputs[0].text for output in prefix_cached_llm.generate(prompts, sampling_params)]
print(regular == cached)
""",
        "True",
    ),
    "structured_outputs": (
        """
import json
from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

llm = LLM(model=MODEL, max_model_len=200)
choice = SamplingParams(structured_outputs=StructuredOutputsParams(choice=["Positive", "Negative"]))
print(llm.generate(prompts="Classify: it is good!", sampling_params=choice)[0].outputs[0].text)
regex = SamplingParams(structured_outputs=StructuredOutputsParams(regex=r"\\w{1,8}@\\w{1,8}\\.com\\n"), stop=["\\n"], max_tokens=50)
print(llm.generate(prompts="Mail: ", sampling_params=regex)[0].outputs[0].text)
schema = {"type": "object", "properties": {"year": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["year"], "additionalProperties": False}
as_json = SamplingParams(structured_outputs=StructuredOutputsParams(json=schema), max_tokens=150)
print(json.loads(llm.generate(prompts="Car: ", sampling_params=as_json)[0].outputs[0].text).keys())
grammar = SamplingParams(structured_outputs=StructuredOutputsParams(grammar='root ::= "SELECT " ("a" | "b")'))
print(llm.generate(prompts="SQL: ", sampling_params=grammar)[0].outputs[0].text)
""",
        r"^(Positive|Negative)\n\w+@\w+\.com\ndict_keys\(\['year'\]\)\nSELECT [ab]$",
    ),
    "multilora_inference": (
        """
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest

llm = LLM(model=MODEL, enable_lora=True, max_loras=1, max_lora_rank=8, max_cpu_loras=2, max_num_seqs=256)
prompts = [("A robot", SamplingParams(temperature=0.0, logprobs=1, prompt_logprobs=1, max_tokens=4)),
           ("To be", SamplingParams(temperature=0.8, top_k=5, presence_penalty=0.2, max_tokens=4))]
for output in llm.generate([prompt for prompt, _ in prompts], [params for _, params in prompts], lora_request=[None, None]):
    print(output.finished, len(output.outputs[0].token_ids))
print(LoRARequest("sql-lora", 1, "folder").lora_name)
""",
        "^True 4\nTrue 4\nsql-lora$",
    ),
    "inputs and beams": (
        """
from vllm import LLM
from vllm.inputs import TokensPrompt
from vllm.sampling_params import BeamSearchParams

llm = LLM(model=MODEL)
ids = llm.get_tokenizer().encode("Once upon")
output = llm.beam_search([TokensPrompt(prompt_token_ids=ids)], BeamSearchParams(beam_width=2, max_tokens=3))[0]
print(len(output.sequences), output.sequences[0].tokens[:len(ids)] == ids)
""",
        "^2 True$",
    ),
}
PROGRAMS = [("llama_cpp", *row) for row in LLAMA_CPP.items()] + [("vllm", *row) for row in VLLM.items()]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with Hub({"tiny-Q8_0.gguf": PACKAGED.read_bytes()}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("peer", "name", "program"), PROGRAMS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_program_runs_by_another_import_line(peer, name, program, hub):
    text, says = program
    if "openai_v1" in text:
        pytest.importorskip("openai")
    moved = re.sub(rf"^(from|import) {peer}\b", rf"\1 lamina.compat.{peer}", text, flags=re.M)
    # `import llama_cpp` binds that name.
    moved = re.sub(rf"^import lamina\.compat\.{peer}$", f"from lamina.compat import {peer}", moved, flags=re.M)
    assert moved != text
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(moved, name, "exec"), {"__name__": "program", "MODEL": str(lamina.builtin.path())})
    assert re.search(says, out.getvalue().strip(), flags=re.S), out.getvalue()


@pytest.mark.parametrize(
    ("peer", "line", "error", "message"),
    [
        ("llama_cpp", 'Llama(MODEL, tokenizer=object())', lamina.UnsupportedError, "tokenizer"),
        ("llama_cpp", 'Llama(MODEL, chat_format="functionary-v2")', lamina.UnsupportedError, "functionary-v2"),
        ("llama_cpp", 'Llama(MODEL)("a", suffix="b")', lamina.UnsupportedError, "infill"),
        ("vllm", "LLM(MODEL, pipeline_parallel_size=8)", lamina.UnsupportedError, "pipeline_parallel_size"),
        ("vllm", 'LLM("org/model")', lamina.ModelError, "hf:org/model"),
    ],
)
def test_what_an_example_asks_for_and_is_not_here_is_named(peer, line, error, message, hub):
    names = {"MODEL": str(lamina.builtin.path())}
    exec(f"from lamina.compat.{peer} import *", names)
    with pytest.raises(error, match=message):
        exec(line, names)
