"""OPT checkpoints with random weights in real shapes, for measurements: what FlexGen was measured with."""

import json
import random
import struct
from pathlib import Path

SHAPES = {
    # layers, hidden, heads
    "125m": (12, 768, 12),
    "1.3b": (24, 2048, 32),
    "2.7b": (32, 2560, 32),
    "6.7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
}
VOCAB, POSITIONS = 50272, 2048
# Spread of the weights: sums over thousands of inputs stay far from what float16 holds.
SPREAD = 0.02
# Random numbers that are repeated, each time from another place on: making billions takes too long.
POOL = 1 << 18


def config(shape, layers=None, positions=POSITIONS):
    of_shape, hidden, heads = SHAPES[shape]
    return {
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "activation_function": "relu",
        "hidden_size": hidden,
        "word_embed_proj_dim": hidden,
        "ffn_dim": 4 * hidden,
        "num_hidden_layers": layers or of_shape,
        "num_attention_heads": heads,
        "max_position_embeddings": positions,
        "vocab_size": VOCAB,
        "do_layer_norm_before": True,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "bos_token_id": 2,
        "eos_token_id": 2,
        "pad_token_id": 1,
    }


def tensors(c):
    """Name, shape, and the value of all numbers (None: random) of each tensor."""
    hidden, inner = c["hidden_size"], c["ffn_dim"]
    base = "model.decoder."
    yield base + "embed_tokens.weight", (c["vocab_size"], hidden), None
    yield base + "embed_positions.weight", (c["max_position_embeddings"] + 2, hidden), None
    norms = [base + "final_layer_norm"]
    for i in range(c["num_hidden_layers"]):
        layer = f"{base}layers.{i}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield f"{layer}self_attn.{name}.weight", (hidden, hidden), None
            yield f"{layer}self_attn.{name}.bias", (hidden,), 0.0
        yield layer + "fc1.weight", (inner, hidden), None
        yield layer + "fc1.bias", (inner,), 0.0
        yield layer + "fc2.weight", (hidden, inner), None
        yield layer + "fc2.bias", (hidden,), 0.0
        norms += [layer + "self_attn_layer_norm", layer + "final_layer_norm"]
    for norm in norms:
        yield norm + ".weight", (hidden,), 1.0
        yield norm + ".bias", (hidden,), 0.0


def count(shape):
    size = 1
    for n in shape:
        size *= n
    return size


def write(folder, shape, layers=None, positions=POSITIONS):
    """Writes `config.json` and `model.safetensors` (float16) into a folder, unless they are there."""
    folder, c = Path(folder), config(shape, layers, positions)
    if (folder / "model.safetensors").exists() and json.loads((folder / "config.json").read_text()) == c:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c))
    header, at = {}, 0
    for name, dims, _ in tensors(c):
        end = at + 2 * count(dims)
        header[name] = {"dtype": "F16", "shape": list(dims), "data_offsets": [at, end]}
        at = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    source = random.Random(7)
    pool = struct.pack(f"<{POOL}e", *(source.gauss(0.0, SPREAD) for _ in range(POOL)))
    unfinished = folder / "model.unfinished"
    with unfinished.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for _, dims, value in tensors(c):
            left = 2 * count(dims)
            if value is not None:
                file.write(struct.pack("<e", value) * (left // 2))
                continue
            while left:
                start = 2 * source.randrange(POOL // 2)
                part = pool[start : start + left]
                file.write(part)
                left -= len(part)
    unfinished.rename(folder / "model.safetensors")
    return folder
