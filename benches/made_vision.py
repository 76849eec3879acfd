"""GGUF files of models that see, with random weights in real shapes: an encoder of pictures, and a text model beside it."""

import gguf
import numpy as np

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
HALF = [0.5, 0.5, 0.5]
# Width of the text models; layers and inner width are those of a model of 1B parameters.
TEXT, TEXT_LAYERS, TEXT_INNER, TEXT_HEADS, TEXT_KEYS = 2048, 16, 8192, 32, 8

SHAPES = {
    "clip-l-336": {
        # Of its 24 blocks the last one is left out: rows are taken before it.
        "projector": "mlp", "width": 1024, "inner": 4096, "layers": 23, "heads": 16, "size": 336, "patch": 14,
        "mean": CLIP_MEAN, "std": CLIP_STD, "text": "llama", "picture": 336,
        "tokens": ["<image>"],
    },
    "siglip-so400m": {
        "projector": "gemma3", "width": 1152, "inner": 4304, "layers": 27, "heads": 16, "size": 896, "patch": 14,
        "mean": HALF, "std": HALF, "text": "gemma3", "picture": 896,
        "tokens": ["<start_of_image>", "<end_of_image>", "<image_soft_token>"],
    },
    "qwen2.5-vl": {
        "projector": "qwen2.5vl_merger", "width": 1280, "inner": 3420, "layers": 32, "heads": 16, "size": 560, "patch": 14,
        "mean": CLIP_MEAN, "std": CLIP_STD, "text": "qwen2vl", "picture": 672,
        "tokens": ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>"],
    },
}  # fmt: skip


class Random:
    """Tensors of random numbers, the same ones for the same names."""

    def __init__(self, writer, kind):
        self.writer, self.kind = writer, kind

    def numbers(self, name, shape, spread):
        seed = sum(ord(c) << (i % 24) for i, c in enumerate(name))
        return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(spread)

    def matrix(self, name, rows, columns):
        numbers = self.numbers(name, (rows, columns), columns**-0.5)
        kind = self.kind if columns % 32 == 0 else "F16"
        if kind == "F16":
            return self.writer.add_tensor(name, numbers.astype(np.float16))
        kind = gguf.GGMLQuantizationType[kind]
        self.writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)

    def plain(self, name, *shape, around=0.0, spread=0.02):
        self.writer.add_tensor(name, around + self.numbers(name, shape, spread))

    def norm(self, name, width, bias):
        self.plain(f"{name}.weight", width, around=1.0)
        if bias:
            self.plain(f"{name}.bias", width)

    def linear(self, name, rows, columns, bias=True):
        self.matrix(f"{name}.weight", rows, columns)
        if bias:
            self.plain(f"{name}.bias", rows)


def encoder(shape, path, kind):
    """The encoder `shape` and its projector, as an mmproj file."""
    of = SHAPES[shape]
    width, inner, patch = of["width"], of["inner"], of["patch"]
    w = gguf.GGUFWriter(path, "clip", use_temp_file=False)
    w.add_type("mmproj")
    w.add_bool("clip.has_vision_encoder", True)
    w.add_string("clip.projector_type", of["projector"])
    for key, value in {
        "projection_dim": TEXT, "image_size": of["size"], "patch_size": patch, "embedding_length": width,
        "feed_forward_length": inner, "block_count": of["layers"], "attention.head_count": of["heads"],
    }.items():  # fmt: skip
        w.add_uint32(f"clip.vision.{key}", value)
    w.add_array("clip.vision.image_mean", of["mean"])
    w.add_array("clip.vision.image_std", of["std"])
    qwen, clip, gemma = (of["projector"] == name for name in ("qwen2.5vl_merger", "mlp", "gemma3"))
    w.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5 if clip else 1e-6)
    w.add_bool("clip.use_silu" if qwen else "clip.use_gelu", not clip)
    random = Random(w, kind)
    random.plain("v.patch_embd.weight", width, 3, patch, patch)
    if qwen:
        w.add_uint32("clip.vision.n_wa_pattern", 8)
        random.plain("v.patch_embd.weight.1", width, 3, patch, patch)
    else:
        cells = (of["size"] // patch) ** 2 + clip
        random.plain("v.position_embd.weight", cells, width)
        random.plain("v.class_embd" if clip else "v.patch_embd.bias", width)
    if clip:
        random.norm("v.pre_ln", width, True)
    if not clip:
        random.norm("v.post_ln", width, gemma)
    for i in range(of["layers"]):
        for part in ("ln1", "ln2"):
            random.norm(f"v.blk.{i}.{part}", width, not qwen)
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            random.linear(f"v.blk.{i}.{part}", width, width)
        for part in ("ffn_up", *(["ffn_gate"] if qwen else [])):
            random.linear(f"v.blk.{i}.{part}", inner, width)
        random.linear(f"v.blk.{i}.ffn_down", width, inner)
    if gemma:
        w.add_uint32("clip.vision.projector.scale_factor", 4)
        # As it is stored: its outputs are columns.
        w.add_tensor("mm.input_projection.weight", random.numbers("mm", (width, TEXT), width**-0.5).astype(np.float16))
        random.plain("mm.soft_emb_norm.weight", width, around=1.0)
    else:
        joined = 4 * width if qwen else width
        random.linear("mm.0", joined if qwen else TEXT, joined)
        random.linear("mm.2", TEXT, joined if qwen else TEXT)
    finish(w)


def text(shape, path, kind, layers=TEXT_LAYERS):
    """A text model that goes with the encoder `shape`; its vocabulary is bytes and the marks of pictures."""
    of = SHAPES[shape]
    arch, gemma, qwen = of["text"], of["text"] == "gemma3", of["text"] == "qwen2vl"
    w = gguf.GGUFWriter(path, arch, use_temp_file=False)
    head = TEXT // TEXT_HEADS
    w.add_block_count(layers)
    w.add_context_length(8192)
    w.add_embedding_length(TEXT)
    w.add_feed_forward_length(TEXT_INNER)
    w.add_head_count(TEXT_HEADS)
    w.add_head_count_kv(TEXT_KEYS)
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e6)
    if qwen:
        w.add_rope_dimension_sections([8, 12, 12, 0])
    else:
        w.add_rope_dimension_count(head)
    if gemma:
        w.add_sliding_window(1024)
    vocabulary(w, of["tokens"])
    random = Random(w, kind)
    words = 256 + 2 + len(of["tokens"])
    random.matrix("token_embd.weight", words, TEXT)
    random.matrix("output.weight", words, TEXT)
    random.norm("output_norm", TEXT, False)
    for i in range(layers):
        block = f"blk.{i}"
        norms = ["attn_norm", "ffn_norm", *(["post_attention_norm", "post_ffw_norm"] if gemma else [])]
        for part in norms:
            random.norm(f"{block}.{part}", TEXT, False)
        if gemma:
            random.norm(f"{block}.attn_q_norm", head, False)
            random.norm(f"{block}.attn_k_norm", head, False)
        random.linear(f"{block}.attn_q", TEXT, TEXT, qwen)
        random.linear(f"{block}.attn_k", TEXT_KEYS * head, TEXT, qwen)
        random.linear(f"{block}.attn_v", TEXT_KEYS * head, TEXT, qwen)
        random.linear(f"{block}.attn_output", TEXT, TEXT, False)
        random.linear(f"{block}.ffn_gate", TEXT_INNER, TEXT, False)
        random.linear(f"{block}.ffn_up", TEXT_INNER, TEXT, False)
        random.linear(f"{block}.ffn_down", TEXT, TEXT_INNER, False)
    finish(w)


def vocabulary(w, marks):
    """Bytes as GPT-2 writes them, the beginning and the end of a text, and marks."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    letter = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    tokens = [letter[b] for b in range(256)] + ["<s>", "</s>", *marks]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([1] * 256 + [3] * (2 + len(marks)))
    w.add_token_merges(["a b"])
    w.add_bos_token_id(256)
    w.add_eos_token_id(257)
    w.add_add_bos_token(True)


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file(progress=False)
    w.close()
