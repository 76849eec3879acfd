"""What the page of the public interface promises, and stubs that say what the modules do."""

import ast
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina import _lamina, constraint, loading, sampling

PACKAGE = Path(lamina.__file__).parent

PARAMETERS = {
    "__init__": "path device context kv_dtype dtype threads seed progress loras draft cache_dir cache_disk memory"
    " offload panel_cache kv_swap device_memory panel_check mmproj mmproj_device image_cache image_max_tokens"
    " image_min_tokens image_limit allow_urls offline stages tp",
    "generate": "prompt sampling_params resume images sounds options",
    "stream": "prompt sampling_params images sounds options",
    "chat": "messages tools response_format stream chat_template chat_template_kwargs split_special_tokens"
    " tool_choice parallel_tool_calls reasoning chat_format sampling_params options",
    "tokenize": "text special",
    "detokenize": "ids",
    "apply_chat_template": "messages tools add_generation_prompt chat_template variables",
    "image_tokens": "image",
    "image_rows": "image",
    "logits": "prompt lora",
    "hidden": "prompt layer lora",
    "embed": "text lora",
    "agenerate": "prompt sampling_params resume images sounds options",
    "astream": "prompt sampling_params images sounds options",
    "achat": "messages tools response_format stream options",
    "aembed": "text lora",
    "score": "context continuation lora",
    "beam": "prompt width max_tokens length_penalty early_stopping stop n grammar lora",
    "save_state": "path prompt data lora images sounds",
    "load_state": "path lora",
    "perplexity": "text_or_ids context stride lora",
    "divergence": "base text_or_ids context lora",
    "close": "",
}


@pytest.mark.parametrize("method", PARAMETERS)
def test_methods(method):
    names = list(inspect.signature(getattr(lamina.LLM, method)).parameters)[1:]
    assert " ".join(names) == PARAMETERS[method]


def test_defaults():
    defaults = {k: p.default for k, p in inspect.signature(lamina.LLM).parameters.items()}
    assert defaults == {
        "path": None, "device": "auto", "context": None, "kv_dtype": "f16", "dtype": "auto", "threads": None,
        "seed": None, "progress": True, "loras": None, "draft": None,
        "cache_dir": None, "cache_disk": None, "memory": None, "offload": "auto", "panel_cache": None,
        "kv_swap": None, "device_memory": None, "panel_check": "always", "offline": False,
        "mmproj": None, "mmproj_device": "auto", "image_cache": None, "image_max_tokens": None,
        "image_min_tokens": None, "image_limit": None,
        "allow_urls": (), "stages": "", "tp": "",
    }  # fmt: skip


def test_options_of_loading_are_those_of_the_list():
    """Each is an argument of `LLM`, or said by a policy, and has a kind that is known; `plan` has those that change it."""
    kinds = {name: kind for name, kind, _ in _lamina.load_kinds()}
    arguments, planned = (set(inspect.signature(one).parameters) for one in (lamina.LLM, lamina.plan))
    said = {*loading._said(lamina.Policy(weights=(0, 50)))}
    assert {name for name in kinds if name not in arguments} == {name for name in kinds if name in said}
    assert arguments - {*kinds} == {"path", "seed", "progress", "loras", "allow_urls"}
    assert planned - {*kinds} == {"path", "batch", "prompt", "gen", "measure", "loras", "image", "audio", "machines", "link"}
    assert arguments & {*kinds} - planned == {"cache_dir", "cache_disk", "panel_check", "image_limit", "stages", "tp"}
    assert {*kinds.values()} <= {*loading._TEXTS}


def test_options_reach_the_binding_as_texts(tmp_path):
    policy = lamina.Policy(rules=["ffn=disk"], n_cpu_moe=2, fewer_experts=(4, 0.1), kv=(0, 50), sparse_prefill=0.25)
    given = {
        "offload": policy, "context": np.int64(64), "memory": 2**40, "kv_swap": "1G", "panel_cache": tmp_path,
        "draft": None, "dtype": "q4_k", "seed": 3,
    }  # fmt: skip
    assert loading.options(given) == {
        "context": ["64"], "memory": [str(2**40)], "kv_swap": ["1G"], "panel_cache": [str(tmp_path)], "dtype": ["q4_k"],
        "offload": ["auto"], "objective": ["latency"], "place": ["ffn=disk"], "percent": ["0 100 0 50 0 100"],
        "n_cpu_moe": ["2"], "fewer_experts": ["4,0.1"], "defer_experts": ["0"], "sparse_prefill": ["0.25"],
    }  # fmt: skip


def test_everything_public_is_documented():
    for name in lamina.__all__:
        thing = getattr(lamina, name)
        assert name == "__version__" or len(thing.__doc__) > 10, name
    for name, thing in inspect.getmembers(lamina.LLM):
        assert name.startswith("_") or len(thing.__doc__) > 10, name


def test_version():
    assert lamina.__version__.count(".") == 2
    importlib_metadata = pytest.importorskip("importlib.metadata")
    assert importlib_metadata.version("lamina") == lamina.__version__


def test_types_ship():
    for name in ("py.typed", "_lamina.pyi", "sampling.pyi"):
        assert (PACKAGE / name).is_file()


def stub(name):
    return ast.parse((PACKAGE / name).read_text())


def functions(node):
    return {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}


def parameters(function):
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def test_the_bindings_stub_is_true():
    """Names and parameters of every class and function, both ways."""
    tree = stub("_lamina.pyi")
    classes = {c.name: c for c in tree.body if isinstance(c, ast.ClassDef)}
    assert {*classes, *functions(tree), "__version__"} == set(_lamina.__all__)
    for name, function in functions(tree).items():
        assert parameters(function) == list(inspect.signature(getattr(_lamina, name)).parameters)
    for name, node in classes.items():
        built = getattr(_lamina, name)
        public = {n for n in vars(built) if not n.startswith("_")}
        assert public == {n for n in functions(node) if not n.startswith("_")}
        for method in public:
            assert parameters(functions(node)[method]) == list(inspect.signature(getattr(built, method)).parameters)
    new = parameters(functions(classes["Model"])["__new__"])[1:]
    assert new == list(inspect.signature(_lamina.Model).parameters)


def test_the_stub_of_options_is_true():
    classes = {c.name: c for c in stub("sampling.pyi").body if isinstance(c, ast.ClassDef)}

    def fields(name):
        found = [f.target.id for f in classes[name].body if isinstance(f, ast.AnnAssign)]
        return [f for f in found if not f.startswith("_")]

    own = """max_tokens min_tokens stop stop_token_ids include_stop_str_in_output n echo ignore_eos lora grammar speculate
    context_shift compress processor""".split()
    grammars = [name for name in constraint.SOURCES if name != "grammar"]
    rows = _lamina.sampling_params()
    assert fields("SamplingParams") == [*own, *(row[0] for row in rows)]
    # A parameter of `chat` itself, and an option elsewhere.
    assert fields("SamplingOptions") == ["response_format"]
    grammars.remove("response_format")
    chat = fields("_ChatOptions")
    assert chat == [*own, *grammars, *(name for row in rows for name in (row[0], *row[1]))]
    assert {*chat, "response_format"} == set(sampling.SamplingOptions.__annotations__)


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.skipif(sys.version_info < (3, 10), reason="mypy no longer reads that Python")
def test_mypy_agrees(tmp_path):
    use = tmp_path / "use.py"
    use.write_text(
        "import lamina, numpy as np\n"
        "llm = lamina.LLM('x', seed=1)\n"
        "a: lamina.Completion = llm.generate('x', max_tokens=3, temperature=0.1, stop=['a'])\n"
        "b: list[lamina.Completion] = llm.generate(['x', 'y'])\n"
        "c: lamina.Completion = llm.generate([1, 2], sampling_params=lamina.SamplingParams(top_k=3))\n"
        "d: list[lamina.Completion] = llm.generate([[1], [2]])\n"
        "e: str = ''.join(p.text for p in llm.stream(np.array([1]), n=2))\n"
        "f: lamina.Completion = llm.chat([{'role': 'user', 'content': 'x'}])\n"
        "g: lamina.Stream = llm.chat([{'role': 'user', 'content': 'x'}], stream=True)\n"
        "llm.generate('x', temprature=1)  # type: ignore[call-overload]\n"
        "h: float = lamina.SamplingParams(top_p=0.5).top_p\n"
        "i: lamina.Score = llm.score('x', 'y')\n"
        "j: list[lamina.Beam] = llm.beam('x', width=3, early_stopping='never')\n"
        "llm.generate('x', processor=lambda tokens, logits: logits.fill(0))\n"
        "async def awaited() -> None:\n"
        "    a: lamina.Completion = await llm.agenerate('x', max_tokens=3)\n"
        "    b: list[lamina.Completion] = await llm.agenerate(['x', 'y'])\n"
        "    c: lamina.Completion = await llm.achat([{'role': 'user', 'content': 'x'}], tool_choice='none', seed=1)\n"
        "    d: lamina.AsyncStream = await llm.achat([{'role': 'user', 'content': 'x'}], stream=True)\n"
        "    e: list[str] = [p.text async for p in llm.astream('x')]\n"
        "    await llm.agenerate('x', temprature=1)  # type: ignore[call-overload]\n"
    )
    stubs = ["mypy.stubtest", "lamina", "--mypy-config-file", Path(__file__).parents[2] / "pyproject.toml"]
    if importlib.util.find_spec("ray") is None:
        # Says what to install when it is imported.
        (tmp_path / "allowed").write_text("lamina.ray\nlamina.ray.application\n")
        stubs += ["--allowlist", tmp_path / "allowed"]
    for command in (["mypy", "--strict", use], stubs):
        run = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
