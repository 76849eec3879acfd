#!/usr/bin/env python3
"""What it would cost to reuse keys and values at other positions: loss of text behind a prompt of pieces computed apart.

    python benches/reuse.py TEXT MODEL... [--prompt 384] [--piece 64] [--scored 48] [--pieces 40] [--shares 0.05 0.15 0.3]

MODEL: a folder with a small Llama in float32. The engine does not do this; here are numbers for why (docs/cache.md). A forward
pass in NumPy computes each piece of a prompt as if nothing stood before it, turns its keys to where it stands, and scores the
text behind all of them:

    all        everything sees all before it, as it should be
    apart      pieces as they were computed alone (Prompt Cache, arXiv 2311.04934)
    first N    the first N tokens of each piece are computed again, with all before them (EPIC, arXiv 2410.15332)
    blend S    the share S of tokens whose keys and values are most wrong in the second layer is (CacheBlend, arXiv 2405.16444)
    last       the last piece alone: what is known without the others

The first pass is held against `lamina`, token by token, so that both mean the same model. Needs NumPy.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np

import lamina


def tensors(path):
    """All tensors of a safetensors file, which must be float32."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    head.pop("__metadata__", None)
    read = lambda t: np.frombuffer(data[8 + size :][slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
    return {name: read(t).astype(np.float64) for name, t in head.items()}


class Llama:
    """Grouped-query attention, rotation by halves, SwiGLU; rows of any cells at any layer."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = tensors(folder / "model.safetensors")
        self.layers, self.heads = self.config["num_hidden_layers"], self.config["num_attention_heads"]
        self.kv_heads = self.config["num_key_value_heads"]
        self.dim = self.config.get("head_dim") or self.config["hidden_size"] // self.heads
        self.theta = (self.config.get("rope_parameters") or self.config).get("rope_theta", 10000.0)
        self.embedding = self.weights["model.embed_tokens.weight"]
        self.head = self.weights.get("lm_head.weight", self.embedding)

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}.weight"]

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * weight

    def turn(self, x, positions):
        """Turns (rows, heads, dim) to positions."""
        half = self.dim // 2
        angle = np.asarray(positions)[:, None, None] * self.theta ** (-np.arange(half) / half)
        a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def key_values(self, layer, x, positions):
        x = self.norm(x, self.weight(layer, "input_layernorm"))
        k, v = (x @ self.weight(layer, f"self_attn.{name}_proj").T for name in "kv")
        shape = (len(x), self.kv_heads, self.dim)
        return self.turn(k.reshape(shape), positions), v.reshape(shape)

    def layer(self, layer, x, positions, k, v, sees):
        """A layer over rows `x`, which attend to those cells of `k` and `v` that `sees` (rows, cells) says."""
        q = self.norm(x, self.weight(layer, "input_layernorm")) @ self.weight(layer, "self_attn.q_proj").T
        q = self.turn(q.reshape(len(x), self.heads, self.dim), positions)
        k, v = (np.repeat(t, self.heads // self.kv_heads, 1) for t in (k, v))
        scores = np.where(sees, np.einsum("rhd,chd->hrc", q, k) / math.sqrt(self.dim), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hrc,chd->rhd", weights / weights.sum(-1, keepdims=True), v)
        x = x + mixed.reshape(len(x), -1) @ self.weight(layer, "self_attn.o_proj").T
        y = self.norm(x, self.weight(layer, "post_attention_layernorm"))
        gate, up = (y @ self.weight(layer, f"mlp.{name}_proj").T for name in ("gate", "up"))
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.weight(layer, "mlp.down_proj").T

    def logprobs(self, x):
        logits = self.norm(x, self.weights["model.norm.weight"]) @ self.head.T
        return logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)

    def forward(self, ids, sees):
        """Keys and values of each layer, and the last rows; positions are those of the whole."""
        x, kept, positions = self.embedding[ids], [], np.arange(len(ids))
        for layer in range(self.layers):
            k, v = self.key_values(layer, x, positions)
            x = self.layer(layer, x, positions, k, v, sees)
            kept.append((k, v))
        return kept, x


def again(model, ids, stale, rows, begin=0):
    """The rows at the end, where `rows` are computed from layer `begin` on and the other cells are `stale`."""
    positions = np.arange(len(ids))
    causal = positions[:, None] >= positions
    x = model.embedding[ids]
    for layer in range(model.layers):
        here = positions if layer < begin else rows
        k, v = (t.copy() for t in stale[layer])
        k[here], v[here] = model.key_values(layer, x[here], here)
        x[here] = model.layer(layer, x[here], here, k, v, causal[here])
    return x


def most_wrong(model, ids, stale, share, prompt):
    """The rows of the prompt whose keys and values in the second layer are farthest from what they should be."""
    positions = np.arange(len(ids))
    x = model.embedding[ids]
    k, v = model.key_values(0, x, positions)
    x = model.layer(0, x, positions, k, v, positions[:, None] >= positions)
    k, v = model.key_values(1, x, positions)
    far = sum(((new - old) ** 2).sum((1, 2)) for new, old in zip((k, v), stale[1]))[:prompt]
    return np.sort(np.argsort(-far, kind="stable")[: math.ceil(share * prompt)])


def losses(model, ids, args):
    """Mean loss of the text behind a prompt, for each way of computing the prompt."""
    ids, prompt = np.asarray(ids), args.prompt
    positions = np.arange(len(ids))
    causal, piece = positions[:, None] >= positions, positions // args.piece
    own = causal & ((piece[:, None] == piece) | (positions[:, None] >= prompt))
    scored = lambda x: -model.logprobs(x[prompt - 1 : -1])[np.arange(len(ids) - prompt), ids[prompt:]].mean()
    # The last token of a prompt is always computed: its logits are wanted.
    tail = positions[prompt - 1 :]
    whole = lambda rows: np.union1d(rows, tail).astype(int)
    stale, _ = model.forward(ids, own)
    yield "all", scored(model.forward(ids, causal)[1])
    yield "apart", scored(again(model, ids, stale, whole([])))
    for n in args.first:
        yield f"first {n}", scored(again(model, ids, stale, whole(positions[:prompt][positions[:prompt] % args.piece < n])))
    for share in args.shares:
        rows = whole(most_wrong(model, ids, stale, share, prompt))
        yield f"blend {share}", scored(again(model, ids, stale, rows, begin=1))
    start = prompt - args.piece
    x = model.forward(ids[start:], causal[start:, start:])[1]
    yield "last", -model.logprobs(x[args.piece - 1 : -1])[np.arange(len(tail) - 1), ids[prompt:]].mean()


def held_against_lamina(llm, model, ids):
    """The greatest difference of a token's loss between this pass and the engine's."""
    x = model.forward(np.asarray(ids), np.tri(len(ids), dtype=bool))[1]
    ours = model.logprobs(x[:-1])[np.arange(len(ids) - 1), ids[1:]]
    theirs = [t.logprob for t in llm.generate(list(ids), echo=True, logprobs=0, max_tokens=0).prompt_logprobs[1:]]
    far = np.abs(ours - theirs).max()
    assert far < 1e-3, f"this is another model than lamina's: {far}"
    return float(far)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--prompt", type=int, default=384, help="tokens of a prompt; a multiple of --piece")
    parser.add_argument("--piece", type=int, default=64)
    parser.add_argument("--scored", type=int, default=48)
    parser.add_argument("--pieces", type=int, default=40, help="places of the text that are scored")
    parser.add_argument("--first", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.15, 0.3])
    args = parser.parse_args()
    size = args.prompt + args.scored
    for folder in args.models:
        model = Llama(folder)
        with lamina.LLM(folder, progress=False, context=size, kv_dtype="f32") as llm:
            ids = list(map(int, llm.tokenize(args.text.read_text()[: 8 * args.pieces * size])))
            far = held_against_lamina(llm, model, ids[:size])
        step = (len(ids) - size) // args.pieces
        found = [dict(losses(model, ids[at : at + size], args)) for at in range(0, step * args.pieces, step)]
        for way in found[0]:
            loss = float(np.mean([one[way] for one in found]))
            row = {"model": folder.name, "prompt": args.prompt, "piece": args.piece, "way": way, "loss": loss}
            print(json.dumps({**row, "from_lamina": far}), flush=True)


if __name__ == "__main__":
    main()
