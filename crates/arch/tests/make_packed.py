"""Quantized Hugging Face checkpoints of tiny random models, and vectors of single weights.

    make_packed.py models FOLDER [NAME...]     one folder per line of MODELS, in the layout of make_fixtures.py
    make_packed.py vectors FILE                one weight per line of METHODS, as JSON

A model is quantized weight by weight, its weights are replaced by what the method's formula gives back in float32, and
the logits are those of transformers on these.
Needs torch, transformers 5, compressed-tensors, hqq and bitsandbytes.
"""
import json
import os
import re
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from make_fixtures import VOCAB, greedy, randomise, rope

F8 = torch.float8_e4m3fn
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


# Fields of any width, lowest bits first: the stream of GPTQ, AWQ's gemv and compressed-tensors.
def pack_bits(codes, bits):
    """[n, k] codes as [n, ceil(k * bits / 32)] int32."""
    n, k = codes.shape
    planes = (codes.numpy().astype(np.uint8)[:, :, None] >> np.arange(bits)) & 1
    stream = np.zeros((n, -(-k * bits // 32) * 32), np.uint8)
    stream[:, : k * bits] = planes.reshape(n, k * bits)
    return torch.from_numpy(np.packbits(stream, axis=1, bitorder="little").view(np.int32).copy())


def halves(x):
    return x.half().float()


def steps(w, bits, group, symmetric, columns=None):
    """Codes, scales and zero points of groups of columns, plain rounding. Scales and zero points are [rows, groups]."""
    rows, cols = w.shape
    group = cols if group <= 0 else group
    of_col = torch.arange(cols) // group if columns is None else columns
    n = int(of_col.max()) + 1
    most = 2**bits - 1
    scales, zeros = torch.zeros(rows, n), torch.zeros(rows, n)
    for g in range(n):
        part = w[:, of_col == g]
        if symmetric:
            scales[:, g], zeros[:, g] = 2 * part.abs().amax(1) / most, (most + 1) // 2
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, g] = (high - low) / most
            zeros[:, g] = torch.round(-low / scales[:, g]).clamp(1, most)
    scales = halves(scales)
    codes = torch.clamp(torch.round(w / scales[:, of_col]) + zeros[:, of_col], 0, most)
    return codes, scales, zeros, of_col


def gptq(w, stem, bits=4, group=32, symmetric=True, act=False, v2=False):
    rows, cols = w.shape
    columns = None
    if act:
        generator = torch.Generator().manual_seed(cols)
        columns = (torch.arange(cols) // group)[torch.randperm(cols, generator=generator)]
    codes, scales, zeros, of_col = steps(w, bits, group, symmetric, columns)
    stored = zeros if v2 else (zeros - 1) % 2**bits
    tensors = {
        ".qweight": pack_bits(codes, bits).t(),
        ".qzeros": pack_bits(stored.t(), bits),
        ".scales": scales.t().half(),
        ".g_idx": of_col.int(),
    }
    return {stem + k: v for k, v in tensors.items()}, scales[:, of_col] * (codes - zeros[:, of_col])


def awq(w, stem, group=32, gemv=False):
    rows, cols = w.shape
    codes, scales, zeros, of_col = steps(w, 4, group, False)
    if gemv:
        groups = zeros.shape[1]
        width = -(-groups // 8)
        width = -(-width // {64: 2, 32: 4}.get(group, 1)) * {64: 2, 32: 4}.get(group, 1)
        wide = torch.nn.functional.pad(scales, (0, 8 * width - groups))
        words = torch.nn.functional.pad(pack_bits(zeros, 4), (0, width - -(-groups // 8)))
        tensors = {".qweight": pack_bits(codes, 4), ".qzeros": words, ".scales": wide.half()}
    else:
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
        mixed = lambda x: pack_bits(x.t().reshape(x.shape[1], -1, 8)[:, :, order].flatten(1), 4)
        tensors = {".qweight": mixed(codes), ".qzeros": mixed(zeros), ".scales": scales.t().half()}
    return {stem + k: v for k, v in tensors.items()}, scales[:, of_col] * (codes - zeros[:, of_col])


def hqq(w, stem, bits=4, group=64, axis=1, optimize=True, view_as_float=False):
    from hqq.core.quantize import Quantizer
    from hqq.core.utils import encode_safetensor_type as encode

    codes, meta = Quantizer.quantize(w, nbits=bits, group_size=group, axis=axis, optimize=optimize, device="cpu",
                                     round_zero=not optimize, view_as_float=view_as_float,
                                     compute_dtype=torch.bfloat16)
    meta["scale"], meta["zero"] = meta["scale"].half(), meta["zero"].half()
    tensors = {".W_q": codes, **{"." + k: encode(v) for k, v in meta.items() if v is not None}}
    exact = dict(meta, scale=meta["scale"].float(), zero=meta["zero"].float(), compute_dtype=torch.float32)
    values = Quantizer.dequantize(codes, exact)
    tensors.update({".offload_meta": encode(False), ".stores_quant_config": encode(True),
                    ".encoded_state_dict": encode(True)})
    return {stem + k: v for k, v in tensors.items()}, values


def packed_int(w, stem, bits=4, group=32, symmetric=True, act=False, scale_type=torch.bfloat16):
    """compressed-tensors pack-quantized."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    cols = w.shape[1]
    columns = None
    if act:
        columns = (torch.arange(cols) // group)[torch.randperm(cols, generator=torch.Generator().manual_seed(cols))]
    codes, scales, zeros, of_col = steps(w, bits, group, symmetric, columns)
    scales = scales.to(scale_type).float()
    half = 2 ** (bits - 1)
    tensors = {
        ".weight_packed": pack_to_int32((codes - half).to(torch.int8), bits),
        ".weight_scale": scales.to(scale_type),
        ".weight_shape": torch.tensor(w.shape),
    }
    if not symmetric:
        tensors[".weight_zero_point"] = pack_to_int32((zeros - half).to(torch.int8), bits, packed_dim=0)
    if act:
        tensors[".weight_g_idx"] = of_col.int()
    return {stem + k: v for k, v in tensors.items()}, scales[:, of_col] * (codes - zeros[:, of_col])


def int8(w, stem, scale_type=torch.bfloat16):
    scale = (w.abs().amax(1, keepdim=True) / 127).to(scale_type)
    codes = torch.round(w / scale.float()).clamp(-128, 127)
    return {f"{stem}.weight": codes.to(torch.int8), f"{stem}.weight_scale": scale}, codes * scale.float()


def fp8(w, stem, block=None, per="tensor", suffix="_scale", scale_type=torch.float32, power=False):
    """8-bit floats; `per` is tensor, row, block or mx."""
    rows, cols = w.shape[-2:]
    down, across = {"tensor": (rows, cols), "row": (1, cols), "block": block, "mx": (1, 32)}[per]
    of = (torch.arange(rows) // down)[:, None] * -(-cols // across) + (torch.arange(cols) // across)[None]
    most = torch.zeros(int(of.max()) + 1).scatter_reduce(0, of.flatten(), w.abs().flatten(), "amax")
    scale = most / 448
    if power or per == "mx":
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    scale = scale.to(scale_type).float()
    codes = (w / scale[of]).to(F8)
    stored = scale.reshape(-(-rows // down), -(-cols // across))
    stored = {"tensor": stored.flatten()[0], "mx": (127 + torch.log2(stored)).to(torch.uint8)}.get(per, stored)
    if per != "mx":
        stored = stored.to(scale_type)
    return {f"{stem}.weight": codes, f"{stem}.weight{suffix}": stored}, codes.float() * scale[of]


def nearest_e2m1(x):
    """Codes of the nearest 4-bit floats."""
    return (x[..., None] - E2M1.to(x)).abs().argmin(-1)


def pairs(codes):
    """Two codes in a byte, the first one low."""
    return (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)


def nvfp4(w, stem, modelopt=True):
    rows, cols = w.shape
    groups = w.reshape(rows, -1, 16)
    whole = w.abs().max() / (448 * 6)
    scale = (groups.abs().amax(-1) / 6 / whole).to(F8)
    factor = scale.float() * whole if modelopt else scale.float() / (1 / whole)
    codes = nearest_e2m1(groups / factor[..., None])
    values = (E2M1[codes] * factor[..., None]).reshape(rows, cols)
    codes = pairs(codes.reshape(rows, cols))
    if modelopt:
        tensors = {".weight": codes, ".weight_scale": scale, ".weight_scale_2": whole, ".input_scale": whole}
    else:
        tensors = {".weight_packed": codes, ".weight_scale": scale, ".weight_global_scale": (1 / whole).reshape(1),
                   ".input_global_scale": whole.reshape(1)}
    return {stem + k: v for k, v in tensors.items()}, values


def mx_parts(w):
    groups = w.reshape(*w.shape[:-1], -1, 32)
    exponent = (torch.floor(torch.log2(groups.abs().amax(-1))) - 2).clamp(-127, 127)
    codes = nearest_e2m1(groups / torch.exp2(exponent)[..., None])
    values = (E2M1[codes] * torch.exp2(exponent)[..., None]).reshape(w.shape)
    return pairs(codes), (exponent + 127).to(torch.uint8), values


def mxfp4(w, stem):
    codes, exponents, values = mx_parts(w)
    return {f"{stem}.weight_packed": codes.flatten(1), f"{stem}.weight_scale": exponents}, values


def gpt_oss(w, name):
    """A batch of experts, stored transposed."""
    codes, exponents, values = mx_parts(w.transpose(1, 2).contiguous())
    return {f"{name}_blocks": codes, f"{name}_scales": exponents}, values.transpose(1, 2).contiguous()


def bnb4(w, stem, kind="nf4", nested=True, run=64):
    import bitsandbytes.functional as F

    codes, state = F.quantize_4bit(w.contiguous(), blocksize=run, compress_statistics=nested, quant_type=kind)
    absmax = state.absmax
    if nested:
        absmax = F.dequantize_blockwise(absmax, state.state2) + state.offset
    # By the formula: the package's own function is wrong on CPUs where a run spans rows.
    low_last = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
    runs = state.code[low_last].split(run)
    values = torch.cat([r * a for r, a in zip(runs, absmax)]).reshape(w.shape)
    tensors = {f"{stem}.weight": codes, **{f"{stem}.weight.{k}": v for k, v in state.as_dict(packed=True).items()}}
    return tensors, values


def bnb8(w, stem):
    largest = w.abs().amax(1)
    codes = torch.round(w * 127 / largest[:, None])
    tensors = {f"{stem}.weight": codes.to(torch.int8), f"{stem}.SCB": largest,
               f"{stem}.weight_format": torch.tensor(0, dtype=torch.uint8)}
    return tensors, codes * (largest / 127)[:, None]


def fused_fp8(w, name):
    """A batch of experts with a scale per output, stored transposed as Llama 4 does."""
    scale = w.abs().amax(1, keepdim=True) / 448
    codes = (w / scale).to(F8)
    return {name: codes, f"{name}_scale": scale}, codes.float() * scale


def settings(method, **more):
    return dict({"quant_method": method}, **more)


def groups(kind, bits, **more):
    weights = dict({"num_bits": bits, "type": kind, "symmetric": True, "strategy": "group"}, **more)
    return {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}


GPTQ = dict(bits=4, group_size=32, desc_act=False, sym=True, checkpoint_format="gptq")
BLOCK = dict(activation_scheme="dynamic", fmt="e4m3", weight_block_size=[128, 128])

# name -> (function, its arguments, quantization_config)
METHODS = {
    "gptq-4": (gptq, {}, settings("gptq", **GPTQ)),
    "gptq-4-asym": (gptq, dict(group=64, symmetric=False), settings("gptq", **dict(GPTQ, group_size=64, sym=False))),
    "gptq-4-act": (gptq, dict(act=True, symmetric=False), settings("gptq", **dict(GPTQ, desc_act=True))),
    "gptq-4-v2": (gptq, dict(symmetric=False, v2=True), settings("gptq", **dict(GPTQ, checkpoint_format="gptq_v2"))),
    "gptq-4-rows": (gptq, dict(group=-1), settings("gptq", **dict(GPTQ, group_size=-1))),
    "gptq-2": (gptq, dict(bits=2, symmetric=False), settings("gptq", **dict(GPTQ, bits=2))),
    "gptq-3": (gptq, dict(bits=3, symmetric=False), settings("gptq", **dict(GPTQ, bits=3))),
    "gptq-8": (gptq, dict(bits=8), settings("gptq", **dict(GPTQ, bits=8))),
    "gptq-said-otherwise": (gptq, dict(bits=8), settings("gptq", **GPTQ)),
    "auto-round": (gptq, {}, settings("auto-round", bits=4, packing_format="auto_round:auto_gptq")),
    "awq": (awq, {}, settings("awq", bits=4, group_size=32, version="gemm", zero_point=True)),
    "awq-gemv": (awq, dict(group=64, gemv=True), settings("awq", bits=4, group_size=64, version="GEMV")),
    "awq-gemv-small": (awq, dict(gemv=True), settings("awq", bits=4, group_size=32, version="gemv")),
    "hqq-4": (hqq, {}, settings("hqq")),
    "hqq-4-axis-0": (hqq, dict(axis=0), settings("hqq")),
    "hqq-4-whole": (hqq, dict(optimize=False), settings("hqq")),
    "hqq-4-rows": (hqq, dict(group=None), settings("hqq")),
    "hqq-8": (hqq, dict(bits=8, group=128), settings("hqq")),
    "hqq-3": (hqq, dict(bits=3), settings("hqq")),
    "hqq-3-axis-0": (hqq, dict(bits=3, axis=0), settings("hqq")),
    "hqq-2": (hqq, dict(bits=2, group=16), settings("hqq")),
    "hqq-1": (hqq, dict(bits=1, group=32), settings("hqq")),
    "hqq-4-float-view": (hqq, dict(view_as_float=True), settings("hqq")),
    "ct-w4a16": (packed_int, {}, settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 4))),
    "ct-w4a16-asym": (packed_int, dict(symmetric=False, scale_type=torch.float16),
                      settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 4))),
    "ct-w4a16-act": (packed_int, dict(act=True),
                     settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 4))),
    "ct-w4a16-rows": (packed_int, dict(group=0),
                      settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 4))),
    "ct-w8a16": (packed_int, dict(bits=8),
                 settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 8))),
    "ct-w3a16": (packed_int, dict(bits=3, symmetric=False),
                 settings("compressed-tensors", format="pack-quantized", config_groups=groups("int", 3))),
    "ct-w8a8": (int8, {}, settings("compressed-tensors", format="int-quantized", config_groups=groups("int", 8))),
    "ct-fp8": (fp8, {}, settings("compressed-tensors", format="float-quantized", config_groups=groups("float", 8))),
    "ct-fp8-rows": (fp8, dict(per="row", scale_type=torch.bfloat16),
                    settings("compressed-tensors", format="float-quantized", config_groups=groups("float", 8))),
    "ct-fp8-block": (fp8, dict(per="block", block=(64, 64)),
                     settings("compressed-tensors", format="float-quantized", config_groups=groups("float", 8))),
    "ct-nvfp4": (nvfp4, dict(modelopt=False), settings("compressed-tensors", format="nvfp4-pack-quantized")),
    "ct-mxfp4": (mxfp4, {}, settings("compressed-tensors", format="mxfp4-pack-quantized")),
    "fp8-block": (fp8, dict(per="block", block=(128, 128), suffix="_scale_inv"), settings("fp8", **BLOCK)),
    "fp8-block-power": (fp8, dict(per="block", block=(128, 128), suffix="_scale_inv", power=True),
                        settings("fp8", scale_fmt="ue8m0", **BLOCK)),
    "fp8-fbgemm": (fp8, dict(per="row"), settings("fbgemm_fp8", activation_scale_ub=1200.0)),
    "fp8-unsaid": (fp8, dict(per="tensor"), None),
    "mxfp8": (fp8, dict(per="mx", suffix="_scale_inv"), settings("mxfp8")),
    "modelopt-fp8": (fp8, {}, dict(quant_algo="FP8", producer={"name": "modelopt"})),
    "modelopt-nvfp4": (nvfp4, {}, settings("modelopt", quant_algo="NVFP4")),
    "bnb-nf4": (bnb4, {}, settings("bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="nf4")),
    "bnb-nf4-plain": (bnb4, dict(nested=False, run=128), dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")),
    "bnb-fp4": (bnb4, dict(kind="fp4"), settings("bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="fp4")),
    "bnb-int8": (bnb8, {}, settings("bitsandbytes", load_in_8bit=True)),
}

LLAMA = dict(vocab_size=VOCAB, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, head_dim=32)
MOE = dict(num_experts_per_tok=2, moe_intermediate_size=64)
MLA = dict(LLAMA, num_key_value_heads=4, kv_lora_rank=128, q_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16,
           v_head_dim=32, moe_intermediate_size=64, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
           first_k_dense_replace=1, n_group=1, topk_group=1)
MLA.pop("head_dim")

# name -> (model class, configuration, method, options); every method also has a Llama of its own name.
MODELS = {name: ("Llama", LLAMA, name, {}) for name in METHODS}
MODELS |= {
    "qwen3-gptq": ("Qwen3", dict(LLAMA, tie_word_embeddings=True), "gptq-4", {}),
    "qwen2-gptq-bias": ("Qwen2", LLAMA, "gptq-4-asym", {}),
    "llama-gptq-head": ("Llama", LLAMA | dict(vocab_size=352), "gptq-4", dict(head=True)),
    "llama-ct-head": ("Llama", LLAMA | dict(vocab_size=352), "ct-w8a16", dict(head=True)),
    "llama-odd-int8": ("Llama", LLAMA | dict(hidden_size=120, intermediate_size=200), "bnb-int8", {}),
    "llama-odd-nf4": ("Llama", LLAMA | dict(hidden_size=120, intermediate_size=200), "bnb-nf4", {}),
    "llama-odd-fp8": ("Llama", LLAMA | dict(hidden_size=148, intermediate_size=330), "fp8-block", {}),
    "phi3-gptq": ("Phi3", dict(LLAMA, pad_token_id=0), "gptq-4-asym", {}),
    "phi3-awq": ("Phi3", dict(LLAMA, pad_token_id=0), "awq", {}),
    "mixtral-gptq": ("Mixtral", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2), "gptq-4", {}),
    "mixtral-awq": ("Mixtral", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2), "awq", {}),
    "mixtral-hqq": ("Mixtral", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2), "hqq-4", {}),
    "qwen3-moe-fp8": ("Qwen3Moe", dict(LLAMA, **MOE, num_experts=5, norm_topk_prob=True), "fp8-block", {}),
    "qwen3-moe-nf4": ("Qwen3Moe", dict(LLAMA, **MOE, num_experts=5), "bnb-nf4", {}),
    "qwen3-moe-w4a16": ("Qwen3Moe", dict(LLAMA, **MOE, num_experts=5), "ct-w4a16", {}),
    "deepseek-v3-fp8": ("DeepseekV3", MLA, "fp8-block", {}),
    "deepseek-v3-awq": ("DeepseekV3", MLA, "awq", {}),
    "deepseek-v2-gptq": ("DeepseekV2", MLA | dict(topk_method="greedy"), "gptq-4", {}),
    "gpt-oss-mxfp4": ("GptOss", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2, sliding_window=9,
        intermediate_size=96), settings("mxfp4"), dict(experts=gpt_oss)),
    "llama4-fp8": ("Llama4", dict(LLAMA, intermediate_size=64, intermediate_size_mlp=96, num_local_experts=3,
        num_experts_per_tok=1, attention_chunk_size=16, interleave_moe_layer_step=1, rope_parameters=rope()),
        settings("compressed-tensors", format="float-quantized"), dict(experts=fused_fp8)),
}

LINEAR = re.compile(r"(proj|w[123]|proj_with_mqa|[qk]v?_[ab]_proj)\.weight$")
EXPERTS = re.compile(r"experts\.(gate_up|down)_proj$")


def quantize(weights, method, options):
    """Packed tensors, plain tensors of the same values, and the settings."""
    packed, plain = {}, {}
    for name, w in weights.items():
        linear = LINEAR.search(name) or (options.get("head") and name == "lm_head.weight")
        if "experts" in options and EXPERTS.search(name):
            parts, values = options["experts"](w.float(), name)
        elif "experts" not in options and linear and w.dim() == 2:
            function, arguments, _ = METHODS[method]
            parts, values = function(w.float(), name.removesuffix(".weight"), **arguments)
        else:
            parts, values = {name: w}, w.float()
        packed |= {k: v.contiguous().clone() for k, v in parts.items()}
        plain[name] = values.contiguous()
    return packed, plain, method if isinstance(method, dict) else METHODS[method][2]


def make(name, folder):
    kind, config, method, options = MODELS[name]
    path = f"{folder}/{name}"
    shutil.rmtree(path, ignore_errors=True)
    model_class = getattr(transformers, kind + "ForCausalLM")
    torch.manual_seed(1)
    model = model_class._from_config(model_class.config_class(**config), attn_implementation="eager").float().eval()
    randomise(model, sum(map(ord, name)))
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(path)
    packed, plain, said = quantize(load_file(f"{path}/model.safetensors"), method, options)
    save_file(plain, f"{path}/model.safetensors", metadata={"format": "pt"})
    model = model_class.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(0, VOCAB, (2, 40), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
        text, margins = greedy(model, ids)
    assert logits.isfinite().all(), name
    with open(f"{path}/config.json") as f:
        config = json.load(f)
    # The values of a cast of the whole model, as in the shared fixtures, are not asked for here.
    config["dtype"] = "float16"
    if said is not None:
        config["quantization_config"] = said
    with open(f"{path}/config.json", "w") as f:
        json.dump(config, f, indent=1)
    save_file(packed, f"{path}/model.safetensors", metadata={"format": "pt"})
    golden = dict(input_ids=ids.int(), logits=logits, greedy=text.int(), greedy_margin=margins)
    save_file({k: v.contiguous() for k, v in golden.items()}, f"{path}/golden.safetensors")
    for extra in os.listdir(path):
        if extra not in ("config.json", "model.safetensors", "golden.safetensors"):
            os.remove(f"{path}/{extra}")
    print(name, "std", round(logits.std().item(), 2), "margin", round(margins[0, 0].item(), 2))


NAMES = {torch.int32: "I32", torch.int64: "I64", torch.int8: "I8", torch.uint8: "U8", torch.float16: "F16",
         torch.bfloat16: "BF16", torch.float32: "F32", F8: "F8_E4M3"}


def vectors(file):
    """One weight of 16 x 128 (8 x 128 to save room where the method allows it) for every method."""
    lines = []
    for name, (function, arguments, said) in METHODS.items():
        rows = 32 if "3" in name or "2" in name or "gemv" in name else 16
        w = torch.randn(rows, 128, generator=torch.Generator().manual_seed(len(name))) / 8
        tensors, values = function(w, "w", **arguments)
        stored = {k: [NAMES[v.dtype], list(v.shape), v.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes().hex()]
                  for k, v in tensors.items()}
        # Every 7th row is enough to notice a wrong layout, and keeps the file small.
        some = {str(r): values[r].float().numpy().tobytes().hex() for r in range(0, rows, 7)}
        lines.append(json.dumps(dict(name=name, settings=said, rows=rows, cols=128, tensors=stored, values=some)))
    with open(file, "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "vectors":
        vectors(sys.argv[2])
    else:
        for name in sys.argv[3:] or MODELS:
            make(name, sys.argv[2])
