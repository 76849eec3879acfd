"""Pages that are made from lists: `python docs/pages.py` writes them, and a test says whether they are what it would write.

models.md from `lamina support --json`, sampling.md from the list of parameters, errors.md from the error types, measured.md from
`benches/record`, `move/*.md` from the checked lists beside them; manual and completions of the wheel from the command that it
installs. Pages that Rust writes are blessed there.
"""

import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# What maturin puts below the prefix that a wheel is installed in.
SHIPPED = ROOT / "packaging" / "wheel" / "data" / "share"


def table(heads, rows):
    """A table; a bar inside of a cell is no border."""
    cell = lambda value: str(value).replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)


def code(names):
    return " ".join(f"`{name}`" for name in names)


def models():
    run = subprocess.run([sys.executable, "-m", "lamina", "support", "--json"], capture_output=True, text=True, check=True)
    known = json.loads(run.stdout)
    made = [path.stem for kind in ("families", "encoders") for path in (ROOT / "crates/fixtures" / kind).glob("*.json")]
    made = [{"jina-v3": "jina-bert-v3", "xlm-roberta": "roberta"}.get(stem, stem) for stem in made]
    # A fixture is of a family, or of one of its forms: `llama-yarn`, `qwen3_5-text`.
    golden = lambda name: any(re.fullmatch(rf"{re.escape(name)}(-\w+)*", stem.replace("_", ".")) for stem in made)  # noqa: E731
    families = [
        [f"`{f['name']}`", code(f["folders"]) or "-", code(f["gguf"]) or (f"as `{f['becomes']}`" if f["becomes"] else "-"),
         "logits of the family's own code" if golden(f["name"]) else "-"]
        for f in known["families"]
    ]  # fmt: skip
    types = [
        [f"`{t['name']}`", f"{t['bits']:.4g}", "yes" if t["gguf"] else "-", "yes" if t["written"] else "-",
         "its own" if t["runs_as"]["cpu"] == t["name"] else f"as `{t['runs_as']['cpu']}`"]
        for t in known["types"]
    ]  # fmt: skip
    encoders = [[f"`{e['name']}`", e["takes"], code(e["folders"]) or "-", code(e["mmproj"]) or "-"] for e in known["encoders"]]
    packings = [[f"`{p['name']}`", code(p["other_names"]) or "-"] for p in known["packings"]]
    return (
        "# Models\n\nWhat this version runs: `lamina support --json` as a page. `lamina support MODEL` says the same of one file, and what exactly\n"
        "of it cannot be run; it reads headers only, also of names such as `hf:org/repo`.\n\n"
        f"## {len(families)} families\n\nWhere the last column has nothing, no checkpoint of the family is in the clone: it is put together from parts that others\n"
        "hold, and `crates/arch/tests/make_fixtures.py` makes checkpoints of most by their own code.\n\n" + table(["family", "folders of Hugging Face", "GGUF files", "in a fresh clone held against"], families) +
        "\n## Encoders of pictures and sound\n\n" + table(["encoder", "of", "folders of Hugging Face (`model_type`)", "projectors of mmproj files"], encoders) +
        "\n## Types of weights\n\n" + table(["type", "bits", "in GGUF files", "can be made", "kernels"], types) +
        "\n## Packed folders\n\n" + table(["packing", "also called"], packings)
    )  # fmt: skip


def sampling():
    import lamina
    from lamina import _lamina
    from lamina.sampling import _OWN_DOCS

    own = [[f"`{name}`", text] for name, text in _OWN_DOCS.items()]
    rows = []
    for name, aliases, kind, default, (least, most), text in _lamina.sampling_params():
        ends = "" if kind in ("strings", "biases") else f"{least:g} to {most:g}" if abs(most) < 1e18 else f"from {least:g}"
        rows.append([f"`{name}`", code(aliases) or "", f"`{json.dumps(default)}`", ends, text])
    assert lamina.SamplingParams
    return (
        "# Sampling\n\nThe parameters of a request, in the order in which they change a row of logits. They have the same names in Python\n"
        "(`generate`, `stream`, `chat`, `SamplingParams`), on the command line (`--top-p`) and in the server's bodies.\n\n"
        + table(["parameter", "also", "default", "range", ""], rows)
        + "\n## Of Python's requests\n\n" + table(["option", ""], own)
    )  # fmt: skip


# What to do about each class of errors; a class without a line is a fault of this page.
DO = {
    "LaminaError": "The message says what failed. After `close` make a new `LLM`; a failure that comes again is one to report.",
    "ModelError": "Look at the path, and for the file that the message names. `lamina list` says which models are here; a name such as `hf:org/repo` is fetched.",
    "FormatError": "The file is damaged or was cut: fetch it anew (`lamina pull --verify NAME` compares checksums), or convert it again.",
    "UnsupportedError": "`lamina support MODEL` says what of it cannot be run. For an option, the message says what is there instead.",
    "OutOfMemoryError": "`lamina plan MODEL` says what takes how much. A smaller `context`, `kv_dtype=\"q8_0\"`, a smaller type, or `memory=\"8GiB\"`, which reads the rest from disk.",
    "DeviceLostError": "Load the model again; `lamina doctor --device cuda` says whether the device computes right.",
    "InvalidRequestError": "The message names the option and what it takes. Nothing was computed.",
}
CAUSES = {
    "Invalid": "Mend the field that `param` names.",
    "TooLong": "Shorten the prompt, or start the server with a larger `--context`; `--context-shift` lets answers go on.",
    "Unauthorized": "Send `Authorization: Bearer KEY` with a key of `--api-key`.",
    "Forbidden": "Ask from an address or with an origin that is allowed (`--allowed-host`, `--cors-origin`), or with a key that may.",
    "NoModel": "`GET /v1/models` lists the names.",
    "NoPath": "Look at the path: `/v1` belongs to the base URL of OpenAI's clients, and not to Ollama's.",
    "WrongMethod": "Use the method that `Allow` names.",
    "TooLarge": "Send less, or raise `--max-body`.",
    "MediaType": "Send `Content-Type: application/json`.",
    "Conflict": "Wait until what is under way has ended: the message names it.",
    "QueueFull": "Wait as long as `Retry-After` says; `--max-queue` is how many may wait.",
    "Unavailable": "Wait as long as `Retry-After` says: the model loads, memory is taken, or the server ends.",
    "Fault": "Look at the server's log by the request's id, and report it.",
    "Timeout": "Raise `--timeout`, or ask for less.",
    "Unsupported": "The message says what this model or this build cannot do, and what can.",
}


def errors():
    from lamina import errors as module

    classes = [one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, module.LaminaError)]
    python = []
    for one in classes:
        other = [base.__name__ for base in one.__mro__ if base.__module__ == "builtins" and base not in (object, BaseException, Exception)]
        python.append([f"`{one.__name__}`", f"`{other[0]}`" if other else "", inspect.getdoc(one), DO[one.__name__]])
    named = (ROOT / "crates/serve/src/error/mod.rs").read_text()
    causes = re.findall(r"/// ([^\n]*)\n    (\w+)(?: \{|,)", re.search(r"pub enum Cause \{(.*?)\n\}", named, flags=re.S)[1])
    shapes = (ROOT / "crates/serve/src/error/shape.rs").read_text()
    server = []
    for text, name in causes:
        row = re.search(rf"Cause::{name}(?: \{{ \.\. \}})? => (?:\{{\s*)?row\((\d+), (\S+), (None|Some\(\"(\w+)\"\))", shapes)
        kind = {"INVALID": "invalid_request_error"}.get(row[2], row[2].strip('"'))
        server.append([row[1], f"`{kind}`" + (f", `{row[4]}`" if row[4] else ""), text, CAUSES[name]])
    exits = [["0", "done"], ["1", "failed, with one line on stderr"], ["2", "the command line is wrong"], ["130", "ended by Ctrl-C"]]
    return (
        "# Errors\n\nEach message says what is wrong, where, and what to do. This page says what the kinds of errors have in common.\n\n"
        "## Python\n\nWhere Python has a class for the same thing, the error is one of those too.\n\n"
        + table(["class", "also a", "is", "what to do"], python)
        + "\n## Server\n\nStatus and type as OpenAI's clients see them; Anthropic's and Ollama's have their own words for the same "
        "([serving.md](serving.md)).\n\n" + table(["status", "type, code", "is", "what to do"], sorted(server, key=lambda row: row[0]))
        + "\n## Command\n\n" + table(["exit code", "is"], exits)
    )  # fmt: skip


def record(name):
    return [json.loads(line) for line in (ROOT / "benches/record" / name).read_text().splitlines()]


def middle(figures, digits=1):
    if figures is None:
        return "-"
    least, most = figures["range"]
    return f"{figures['median']:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def when(row):
    return f"{row['date'][:10]}, `{row['commit']}`" if row.get("date") else "before dates were kept"


def newest(rows, key):
    """Of lines about the same thing the last one."""
    found = {}
    for row in rows:
        found[key(row)] = row
    return list(found.values())


def measured():
    peers = newest(record("peers.jsonl"), lambda r: (r["model"], r["depth"], r["batch"]))
    speed = [
        [f"`{r['model']}`", r["depth"], r["batch"], middle(r["prefill"]["ratio"], 2), middle(r["decode"]["lamina"]), middle(r["decode"]["ratio"], 2), when(r)]
        for r in peers if r.get("decode") and r.get("prefill") and r["decode"].get("ratio")
    ]  # fmt: skip
    limit = [
        [f"`{r['model']}`", f"{100 * r['decode_bandwidth_share']['median']:.0f} %", middle(r["read_bandwidth_gb_s"]), when(r)]
        for r in peers if r.get("decode_bandwidth_share") and r["batch"] == 1 and r["depth"] == 0
    ]  # fmt: skip
    disk = [
        [f"`{r['model']}`" + (f" `{r['dtype']}`" if r["dtype"] else ""), f"{r['memory_budget'] / 1e9:.2f} GB", f"{r['share']} %", r["batch"],
         f"{r['tok_s']:.2f}", f"{r['predicted']:.2f}" if r.get("predicted") else "-", when(r)]
        for r in newest(record("flexgen.jsonl"), lambda r: (r["model"], r["dtype"], r["share"], r["batch"])) if not r["failed"] and not r["peer"]
    ]  # fmt: skip
    clients = [
        [r["clients"], middle(r["tok_s"]["lamina"]), middle(r["tok_s"]["peer"]), middle(r["ttft_p99"]["ratio"], 2), when(r)]
        for r in record("serve.jsonl")
    ]  # fmt: skip
    losses = [[f"`{r['model']}`", f"{r['lamina']:.4f}", f"{r['llama.cpp']:.4f}"] for r in record("perplexity.jsonl")]
    masks = [
        [f"{r['vocabulary']:,}", r["schemas"], f"{r['mask_us']['average']:.0f}", f"{r['mask_us']['p99']:.0f}", f"{r['first_us']['p50'] / 1000:.1f}", when(r)]
        for r in newest(record("masks/release.jsonl"), lambda r: r["vocabulary"])
    ]  # fmt: skip
    return (
        "# Measured\n\nFrom `benches/record`, where each line has its date, commit, processor and the peer's version. Figures are medians with their\n"
        "range; ratios are taken in turn, in one run. All were taken on two shared cores of an AMD EPYC: they say how Lamina compares, and not\n"
        "how fast your machine is. For that: `lamina bench MODEL`, and `benches/peers.py MODEL` beside llama.cpp.\n\n"
        "## Faster than llama.cpp?\n\nAbove 1, Lamina is faster.\n\n"
        "![Ratios beside llama.cpp, a row for each model: prompts in blue, answers in orange](measured-peers.svg)\n\n"
        + table(["model", "behind tokens", "at once", "prompts, ratio", "tokens/s", "answers, ratio", "when"], speed)
        + "\n## How far from the limit?\n\nAn answer reads all weights for each token: the share of what memory can give.\n\n"
        "![Part of the memory's bandwidth that answers had, a row for each model](measured-limits.svg)\n\n"
        + table(["model", "of the bandwidth", "GB/s read", "when"], limit)
        + "\n## Larger than memory?\n\nA limit of the operating system on the process's memory; `share` of the weights that fit.\n\n"
        + table(["model", "memory", "share", "at once", "tokens/s", "foretold", "when"], disk)
        + "\n## Many clients?\n\nllama-cpp-python's server beside it; tokens of all clients in a second, and the ratio of the 99th percentile of first tokens.\n\n"
        + table(["clients", "Lamina", "peer", "first token, ratio", "when"], clients)
        + "\n## Is it right?\n\nPerplexity of 10,000 tokens, in windows of 256.\n\n" + table(["model", "Lamina", "llama.cpp"], losses)
        + "\n## What do grammars cost?\n\nMicroseconds for the mask of a token; milliseconds for the first.\n\n"
        + table(["tokens known", "schemas", "average", "99 %", "first", "when"], masks)
    )  # fmt: skip


def moving(path):
    """A page from its list: rows of `there`, `here`, `difference`, and two programs."""
    told = tomllib.loads(path.read_text())
    rows = [[row["there"], row["here"], row.get("difference", "")] for row in told["rows"]]
    parts = [f"# From {told['peer']}\n\n{told['text'].strip()}\n"]
    for title, language, key in (("Before", told.get("language", "python"), "before"), ("After", told.get("language", "python"), "after")):
        if key in told:
            parts.append(f"## {title}\n\n```{language if key == 'after' else 'text'}\n{told[key].strip()}\n```\n")
    parts.append("## One by one\n\n" + table(["there", "here", "difference that matters"], rows))
    parts.append("## What is not there\n\n" + "".join(f"- {line}\n" for line in told["missing"]))
    return "\n".join(parts)


def shipped():
    """Manual and completions where `man` and shells look for them, by their paths from here."""
    with tempfile.TemporaryDirectory() as share:
        for made in (["man", "--dir", f"{share}/man/man1"], ["completions", "--dir", share]):
            subprocess.run([sys.executable, "-m", "lamina", *made], check=True)
        files = [path for path in Path(share).rglob("*") if path.is_file()]
        folder = Path("..") / SHIPPED.relative_to(ROOT)
        return {(folder / path.relative_to(share)).as_posix(): path.read_text() for path in files}


def drawn():
    """The figures of measured.md, which `benches/plot.py` draws, by their names."""
    spec = importlib.util.spec_from_file_location("plot", ROOT / "benches" / "plot.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FIGURES


def pages():
    """All pages, by their names."""
    made = {"models.md": models, "sampling.md": sampling, "errors.md": errors, "measured.md": measured}
    found = {name: make() for name, make in made.items()}
    found.update({name: draw(record("peers.jsonl")) for name, draw in drawn().items()})
    found.update({f"move/{path.stem}.md": moving(path) for path in sorted((DOCS / "move").glob("*.toml"))})
    return {**found, **shipped()}


if __name__ == "__main__":
    # Made before those that are there go: without a command nothing is lost.
    made = pages()
    shutil.rmtree(SHIPPED, ignore_errors=True)
    for name, text in made.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text)
