"""Loading: progress, notes, memory, the model inside the package."""

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import lamina
import pytest
from lamina import builtin, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal(stories_gguf, monkeypatch):
    monkeypatch.setattr(progress.Bar, "_EVERY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    lamina.LLM(stories_gguf).close()
    drawn = sys.stderr.getvalue()
    assert f"{stories_gguf.name} [####" in drawn and "100%" in drawn
    assert drawn.endswith("\r") and drawn.rsplit("\r", 2)[1].strip() == "", "the line is taken away"


def test_no_bar_elsewhere(stories_gguf, monkeypatch):
    monkeypatch.setattr(progress.Bar, "_EVERY", 0)
    for stream, on in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        lamina.LLM(stories_gguf, progress=on).close()
        assert stream.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)
    lamina.LLM(stories_gguf).close()


class Notebook:
    """What a cell of a notebook shows, as IPython's kernel has it."""

    kernel = True

    def __init__(self):
        self.outputs = []

    def display(self, shown, raw, display_id):
        self.outputs.append([shown["text/plain"]])
        return self

    def update(self, shown, raw):
        self.outputs[-1].append(shown["text/plain"])


def test_one_line_in_a_notebook(stories_gguf, monkeypatch):
    monkeypatch.setattr(progress.Bar, "_EVERY", 0)
    notebook, written = Notebook(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: notebook))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=notebook.display))
    lamina.LLM(stories_gguf).close()
    assert written.getvalue() == "" and len(notebook.outputs) == 1, "one output, which is replaced"
    drawn = notebook.outputs[0]
    assert "100%" in drawn[-2] and drawn[-1] == "" and not any("\r" in line for line in drawn)


def test_own_progress(stories_gguf):
    seen = []
    lamina.LLM(stories_gguf, progress=lambda done, total: seen.append((done, total))).close()
    done, totals = zip(*seen)
    assert list(done) == sorted(done) and done[-1] == totals[-1] and len(set(totals)) == 1


def test_progress_can_give_up(stories_gguf):
    def tell(done, total):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        lamina.LLM(stories_gguf, progress=tell)


def test_paths(stories_gguf):
    for path in (stories_gguf, str(stories_gguf), Path(os.path.relpath(stories_gguf))):
        with lamina.LLM(path, progress=False) as llm:
            assert llm.info.architecture == "llama"


def test_info(stories, stories_gguf, stories_folder):
    info = stories.info
    assert (info.family, info.layers, info.hidden, info.vocab, info.context) == ("llama", 5, 64, 512, 512)
    assert info.params == 260_032 and info.bytes == 4 * info.params
    assert info.tokenizer and info.end_tokens == [2] and info.kv_dtype == "f16"
    assert info.threads >= 1 and info.device == "cpu"
    assert stories.config["hidden_size"] == 64 and stories.config["num_key_value_heads"] == 4
    with lamina.LLM(stories_gguf, progress=False) as llm:
        assert llm.config["hidden_size"] == 64, "a GGUF file's keys under the same names"
    assert "LlamaForCausalLM" in repr(stories)


def test_threads_do_not_matter(stories_gguf, stories):
    want = stories.generate("Once", max_tokens=30, temperature=0, logprobs=3).logprobs
    for threads in (1, 3):
        with lamina.LLM(stories_gguf, threads=threads, progress=False) as llm:
            assert llm.info.threads == threads
            assert llm.generate("Once", max_tokens=30, temperature=0, logprobs=3).logprobs == want


def test_notes_are_logged(stories_folder, tmp_path, caplog):
    for file in stories_folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((stories_folder / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({**config, "a_setting_of_tomorrow": 1.5}))
    with lamina.LLM(tmp_path, progress=False) as llm:
        assert any("a_setting_of_tomorrow" in note for note in llm.info.notes)
    assert "a_setting_of_tomorrow" in caplog.text


def test_the_model_inside_the_package(monkeypatch, stories_gguf, tmp_path):
    monkeypatch.setenv("LAMINA_MODEL", str(stories_gguf))
    with lamina.LLM(progress=False) as llm:
        assert llm.info.path == str(stories_gguf)
    monkeypatch.delenv("LAMINA_MODEL")
    monkeypatch.setattr(builtin, "_FILE", tmp_path / "lamina-tiny.gguf")
    with pytest.raises(lamina.ModelError, match="lamina-tiny.gguf.*give a path"):
        lamina.LLM()


MEMORY = """
    import gc, json, sys, numpy as np, lamina
    from pathlib import Path
    from safetensors.numpy import save_file

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

    folder, hidden, ffn, layers, vocab = Path(sys.argv[1]), 512, 2048, 8, 4096
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=hidden, intermediate_size=ffn,
        num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=8, vocab_size=vocab,
        max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, hidden_act="silu")
    (folder / "config.json").write_text(json.dumps(config))
    def rows(n, m):
        return np.full((n, m), 0.01, np.float32)
    tensors = {"model.embed_tokens.weight": rows(vocab, hidden), "model.norm.weight": np.ones(hidden, np.float32)}
    for i in range(layers):
        for name, shape in dict(q=(hidden, hidden), k=(hidden, hidden), v=(hidden, hidden), o=(hidden, hidden)).items():
            tensors[f"model.layers.{i}.self_attn.{name}_proj.weight"] = rows(*shape)
        for name, shape in dict(gate=(ffn, hidden), up=(ffn, hidden), down=(hidden, ffn)).items():
            tensors[f"model.layers.{i}.mlp.{name}_proj.weight"] = rows(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{i}.{name}.weight"] = np.ones(hidden, np.float32)
    save_file(tensors, folder / "model.safetensors")
    size = sum(t.nbytes for t in tensors.values()) / 1e6
    del tensors
    gc.collect()

    start = resident()
    for _ in range(4):
        llm = lamina.LLM(folder, progress=False)
        llm.generate([1, 2, 3], max_tokens=3)
        loaded = resident()
        llm.close()
        print(size, loaded - start, resident() - start)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_closing_frees_the_memory(tmp_path):
    script = textwrap.dedent(MEMORY)
    run = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        size, loaded, after = map(float, line.split())
        assert size > 100
        # Weights are held once; of what was freed the allocator keeps a little.
        assert 0.9 * size < loaded < 1.6 * size, line
        assert after < 0.25 * size, line


def changed(shared, tmp_path, name, **settings):
    """A copy of a golden model with other settings."""
    folder = tmp_path / name
    shutil.copytree(shared / "golden" / name, folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(settings)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_configuration_cannot_ask_for_tables_without_measure(shared, tmp_path):
    folder = changed(shared, tmp_path, "llama", num_hidden_layers=4096, head_dim=2**24)
    with pytest.raises(lamina.LaminaError, match="head_dim"):
        lamina.LLM(folder, progress=False)


def test_a_context_beyond_the_models_own_gives_a_note(stories_folder):
    with lamina.LLM(stories_folder, context=60_000, progress=False) as llm:
        assert any("beyond" in note for note in llm.info.notes)
    with lamina.LLM(stories_folder, progress=False) as llm:
        assert not any("beyond" in note for note in llm.info.notes)


def test_dynamic_rotary_tables_end_at_the_models_own_context(shared, tmp_path):
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    folder = changed(shared, tmp_path, "llama", rope_scaling=scaling, rope_parameters={**scaling, "rope_theta": 10000.0})
    with lamina.LLM(folder, progress=False) as llm:
        own = llm.info.context
    with pytest.raises(lamina.UnsupportedError, match="dynamic"):
        lamina.LLM(folder, context=own + 1, progress=False)


@pytest.mark.parametrize(
    "wrong", [{"device": 5}, {"kv_dtype": None}, {"dtype": 1}, {"progress": 5}, {"dtype": "no type"}]
)
def test_wrong_options_are_invalid_requests_or_name_the_type(stories_folder, wrong):
    with pytest.raises((lamina.InvalidRequestError, lamina.UnsupportedError, lamina.FormatError)):
        lamina.LLM(stories_folder, **{"progress": False, **wrong})
