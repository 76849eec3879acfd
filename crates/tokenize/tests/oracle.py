"""Expected token ids from the tokenizers' own implementations.

Reads {"jobs": [{"kind": ..., "texts": [...], ...}]} as JSON from stdin and writes one list of id lists per job to
stdout. Run by tests/it/oracle.rs when LAMINA_PYTHON names a Python with tiktoken, sentencepiece,
tokenizers, gguf and llama_cpp.
"""

import base64
import json
import os
import sys
import tempfile


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def tiktoken_pattern(name):
    import tiktoken_ext.openai_public as public

    if name == "gpt2":
        return public.r50k_pat_str
    if name in ("llama3", "qwen"):
        return {"llama3": LLAMA3, "qwen": QWEN}[name]
    loader = public.load_tiktoken_bpe
    public.load_tiktoken_bpe = lambda *args, **kwargs: {}
    try:
        return public.ENCODING_CONSTRUCTORS[name]()["pat_str"]
    finally:
        public.load_tiktoken_bpe = loader


def tiktoken_job(job):
    import tiktoken

    with open(job["path"], "rb") as file:
        lines = [line.split() for line in file if line.strip()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    special = {text: id for text, id in job.get("special", [])}
    encoding = tiktoken.Encoding(job["name"], pat_str=tiktoken_pattern(job["name"]), mergeable_ranks=ranks, special_tokens=special)
    if job.get("parse"):
        return [encoding.encode(text, allowed_special="all") for text in job["texts"]]
    return [encoding.encode_ordinary(text) for text in job["texts"]]


def sentencepiece_job(job):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=job["path"])
    return [processor.encode(text) for text in job["texts"]]


def sentencepiece_decode_job(job):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=job["path"])
    return [processor.decode(ids) for ids in job["ids"]]


def sentencepiece_dump_job(job):
    """Pieces, scores and kinds (as GGUF numbers them) of a model."""
    import sentencepiece

    sp = sentencepiece.SentencePieceProcessor(model_file=job["path"])
    ids = range(sp.get_piece_size())
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1 for i in ids]
    return [[sp.id_to_piece(i) for i in ids], [sp.get_score(i) for i in ids], kinds]


def sentencepiece_train_job(job):
    """Trains a model at `path` with `options`; no ids."""
    import sentencepiece

    prefix = os.path.splitext(job["path"])[0]
    sentencepiece.SentencePieceTrainer.train(input=job["input"], model_prefix=prefix, minloglevel=2, **job["options"])
    return []


def patched_gguf(source, target, patch):
    """A copy of the metadata of a GGUF file with some keys changed (None: removed)."""
    import gguf

    reader = gguf.GGUFReader(source)
    fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    values = {key: (field.types[0], field.types[-1], field.contents()) for key, field in fields.items()}
    for key, value in patch.items():
        values.pop(key, None)
        if value is not None:
            kind, item, content = guess(value)
            values[key] = (kind, item, content)
    writer = gguf.GGUFWriter(target, values["general.architecture"][2])
    for key, (kind, item, content) in values.items():
        if key != "general.architecture":
            writer.add_key_value(key, content, kind, sub_type=item if kind == gguf.GGUFValueType.ARRAY else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def with_pre(source, target, name):
    """A copy of a GGUF file with another `tokenizer.ggml.pre`, spliced: rewriting every token takes seconds."""
    with open(source, "rb") as file:
        data = file.read()
    key = b"tokenizer.ggml.pre"
    at = data.index(key) + len(key) + 4
    length = int.from_bytes(data[at : at + 8], "little")
    name = name.encode()
    with open(target, "wb") as file:
        file.write(data[:at] + len(name).to_bytes(8, "little") + name + data[at + 8 + length :])


def guess(value):
    import gguf

    t = gguf.GGUFValueType
    if isinstance(value, list):
        item = t.STRING if isinstance(value[0], str) else t.FLOAT32 if isinstance(value[0], float) else t.INT32
        return (t.ARRAY, item, value)
    kind = t.BOOL if isinstance(value, bool) else t.STRING if isinstance(value, str) else t.UINT32
    return (kind, kind, value)


def llama_job(job):
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.gguf")
        if "pre" in job:
            with_pre(job["path"], path, job["pre"])
        else:
            patched_gguf(job["path"], path, job.get("patch", {}))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        model = llama_cpp.llama_load_model_from_file(path.encode(), params)
        assert model, job.get("pre")
        vocab = llama_cpp.llama_model_get_vocab(model)
        out = []
        for text in job["texts"]:
            data = text.encode()
            room = len(data) + 16
            ids = (llama_cpp.llama_token * room)()
            add, parse = job.get("add", False), job.get("parse", False)
            count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, room, add, parse)
            assert count >= 0, text
            out.append(list(ids[:count]))
        llama_cpp.llama_free_model(model)
        return out


def bert_job(job):
    """A vocabulary as GGUF writes it (U+2581 begins a word), run by the tokenizers library."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    def original(text):
        if text.startswith("[") and text.endswith("]") and len(text) > 2:
            return text
        return text[1:] if text.startswith("\u2581") else "##" + text

    vocab = {original(text): id for id, text in enumerate(job["tokens"])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=job["lowercase"], strip_accents=job["strip"])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
    return [tokenizer.encode(text).ids for text in job["texts"]]


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def cased(upper, lower, contractions, digits, after):
    """The o200k family: words end where the case changes."""
    start = r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}[{upper}]*[{lower}]+{contractions}|{start}[{upper}]+[{lower}]*{contractions}"
    return words + "|" + digits + r"| ?[^\s\p{L}\p{N}]+" + after + TAIL


O200K = cased(UPPER, LOWER, CONTRACTIONS + "?", r"\p{N}{1,3}", r"[\r\n/]*")
NO_HAN = r"&&[^\p{Han}]"
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + TAIL
)
# The patterns of each family's tokenizer.json, in their original form.
ORIGINAL = {
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN],
    "qwen35": [
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        + TAIL
    ],
    "gpt-4o": [O200K],
    "granite-embed-multi-97m": [O200K],
    "tekken": [cased(UPPER, LOWER, "", r"\p{N}", r"[\r\n/]*")],
    "kimi-k2": [r"[\p{Han}]+|" + cased(UPPER + NO_HAN, LOWER + NO_HAN, CONTRACTIONS + "?", r"\p{N}{1,3}", r"[\r\n]*")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "youtu": [
        r"[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
        r"\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        cased(UPPER, LOWER, CONTRACTIONS + "?", r"\p{N}", r"[\r\n/]*"),
    ],
    "deepseek-v3": [r"\p{N}{1,3}", r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3],
    "deepseek-coder": [
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}",
    ],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "exaone-moe": [
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
        + r"|\s+(?!\S)|\s+"
    ],
    "jais-2": [
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        + "".join(r"|\s{%d}(?!\S)" % (2**power) for power in range(9, 1, -1))
        + r"|\s{1,2}(?!\S)|\s{1}"
    ],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "seed-coder": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
}


def original_names_job(job):
    return list(ORIGINAL)


def original_job(job):
    """GPT-2's vocabulary, cut by the original patterns of another family in the tokenizers library."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    whole = job["pre"] in ("llama-bpe", "tekken", "granite-embed-multi-97m", "youtu", "minicpm5")
    with open(job["merges"], encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#version")]
    with open(job["vocab"], encoding="utf-8") as file:
        vocab = json.load(file)
    merges = [tuple(line.split(" ")) for line in lines if line]
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole))
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in ORIGINAL[job["pre"]]]
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, bytes_only])
    return [tokenizer.encode(text).ids for text in job["texts"]]


def quiet_llama():
    import llama_cpp

    global log
    log = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(log, None)


KINDS = {
    "tiktoken": tiktoken_job,
    "sentencepiece": sentencepiece_job,
    "sentencepiece_decode": sentencepiece_decode_job,
    "sentencepiece_dump": sentencepiece_dump_job,
    "sentencepiece_train": sentencepiece_train_job,
    "llama": llama_job,
    "bert": bert_job,
    "original": original_job,
    "original_names": original_names_job,
}


def main():
    jobs = json.load(sys.stdin)["jobs"]
    if any(job["kind"] == "llama" for job in jobs):
        quiet_llama()
    json.dump([KINDS[job["kind"]](job) for job in jobs], sys.stdout)


if __name__ == "__main__":
    main()
