#!/usr/bin/env python3
"""A GGUF file whose greedy answer is a given text, at the cost of a real model's steps.

    python benches/scripted.py VOCAB.gguf TEXT OUT.gguf [--layers 16] [--hidden 2048] [--type Q4_K]

GPT-2 has a table of positions: the row of position p is the embedding of the text's token p + 1, many times as long as
other rows, and the layers' outputs are zero (their matrices are random and of the full size but for the two that end a
layer), so that the likeliest token behind any prefix of the text is the text's next one. Look-up and draft models then
meet real text, as written by a model that quotes, edits or tells, while no made-up acceptance is involved.

VOCAB.gguf is any file with GPT-2's tokenizer. Needs `pip install gguf` and `lamina` on the path.
"""

import argparse
import subprocess

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# Of a position's row over an embedding's: what the token itself adds is noise beside it.
LOUD = 16
# Scales that keep activations of random blocks near 1: 16-bit floats at the start of a block.
SCALES = {Type.Q4_K: (2e-4, 1e-3), Type.Q8_0: (2e-4,)}


def tokens_of(vocab, text):
    line = ["lamina", "tokenize", "--ids", str(vocab), "-"]
    return [int(i) for i in subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout.split()]


def words_of(vocab):
    """How many tokens a vocabulary has."""
    return len(gguf.GGUFReader(vocab).get_field("tokenizer.ggml.tokens").contents())


def blocks(rng, rows, columns, kind, zero=False):
    """Random blocks of a matrix, or blocks whose scales are zero."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows * columns // length, size), dtype=np.uint8)
    scales = np.array(SCALES[kind], np.float16) * (not zero)
    raw[:, : scales.nbytes] = scales.view(np.uint8)
    return raw.reshape(rows, -1)


def write(out, vocab, tokens, layers, hidden, kind):
    """The model whose answer behind `tokens[:p]` is `tokens[p:]`."""
    reader = gguf.GGUFReader(vocab)
    field = lambda name: reader.get_field(name).contents()
    words = field("tokenizer.ggml.tokens")
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(out, "gpt2")
    writer.add_name("scripted")
    writer.add_block_count(layers)
    writer.add_context_length(len(tokens))
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(4 * hidden)
    writer.add_head_count(hidden // 64)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model(field("tokenizer.ggml.model"))
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types(field("tokenizer.ggml.token_type"))
    writer.add_token_merges(field("tokenizer.ggml.merges"))
    embedding = rng.standard_normal((len(words), hidden), dtype=np.float32).astype(np.float16)
    positions = np.zeros((len(tokens), hidden), np.float32)
    positions[:-1] = LOUD * embedding[tokens[1:]].astype(np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("position_embd.weight", positions)
    ones, zeros = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output_norm.bias", zeros)
    shapes = dict(attn_qkv=(3, 1, False), attn_output=(1, 1, True), ffn_up=(4, 1, False), ffn_down=(1, 4, True))
    for layer in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", ones)
            writer.add_tensor(f"blk.{layer}.{norm}.bias", zeros)
        for name, (outputs, inputs, zero) in shapes.items():
            matrix = blocks(rng, outputs * hidden, inputs * hidden, kind, zero)
            writer.add_tensor(f"blk.{layer}.{name}.weight", matrix, raw_dtype=kind)
            writer.add_tensor(f"blk.{layer}.{name}.bias", np.zeros(outputs * hidden, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab", metavar="VOCAB.gguf")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--type", default="Q4_K", choices=[kind.name for kind in SCALES])
    args = parser.parse_args()
    import lamina

    with open(args.text, encoding="utf-8") as file:
        tokens = tokens_of(args.vocab, file.read())
    write(args.out, args.vocab, tokens, args.layers, args.hidden, Type[args.type])


if __name__ == "__main__":
    main()
