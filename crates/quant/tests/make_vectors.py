"""Writes vectors.txt: what the gguf package decodes and encodes, as hashes over data that tests/it/support.rs makes again.

Run: python make_vectors.py > vectors.txt
"""

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES

MASK = (1 << 64) - 1
FILLS = [0x00, 0xFF, 0x80, 0x7F, 0x55, 0xAA, 0x01, 0xFE]
TYPES = """F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S
IQ1_S IQ1_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0""".split()


def split_mix(seed: int, count: int) -> np.ndarray:
    """The first `count` words of SplitMix64."""
    out = np.empty(count, np.uint64)
    for i in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        out[i] = z ^ z >> 31
    return out


def fnv(words: np.ndarray) -> str:
    h = 0xCBF29CE484222325
    for w in words.tolist():
        h = ((h ^ w) * 0x100000001B3) & MASK
    return f"{h:016x}"


def blocks(qtype: gguf.GGMLQuantizationType, random: int) -> np.ndarray:
    size = GGML_QUANT_SIZES[qtype][1]
    fills = np.repeat(np.array(FILLS, np.uint8), size)
    words = split_mix(int(qtype), -(-random * size // 8))
    return np.concatenate([fills, words.view(np.uint8)[: random * size]]).reshape(-1, size)


def rows(seed: int, count: int) -> np.ndarray:
    r = split_mix(seed, count * 256).reshape(count, 256)
    four = sum((r >> np.uint64(16 * k) & np.uint64(0xFFFF)).astype(np.int32) for k in range(4)) - 131070
    x = four.astype(np.float32) / np.float32(65536)
    x[1::4] *= np.exp2((r[1::4] >> np.uint64(60)).astype(np.float32) - 12)
    x[2::4] = np.where(r[2::4] & np.uint64(1) == 1, 0, x[2::4] / np.float32(65536))
    spike = x[3::4, 77] * np.float32(100)
    x[3::4] = 0
    x[3::4, 77] = spike
    return x


def decode(qtype: gguf.GGMLQuantizationType, data: np.ndarray) -> np.ndarray:
    if qtype == gguf.GGMLQuantizationType.Q1_0:  # the package has its size but no code: sign bits, lowest first
        d = data[:, :2].copy().view(np.float16).astype(np.float32)
        return np.where(np.unpackbits(data[:, 2:], axis=1, bitorder="little") == 1, d, -d)
    return gguf.dequantize(data, qtype)


def words(values: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(values, np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32)).ravel()


def main() -> None:
    np.seterr(all="ignore")
    for name in TYPES:
        qtype = gguf.GGMLQuantizationType[name]
        decoded = fnv(words(decode(qtype, blocks(qtype, 64))))
        try:
            encoded = fnv(gguf.quantize(rows(1, 32), qtype).view(np.uint8).ravel())
        except NotImplementedError:
            encoded = "-"
        print(name, decoded, encoded)


if __name__ == "__main__":
    main()
