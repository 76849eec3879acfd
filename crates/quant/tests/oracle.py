"""Answers the questions that oracle.rs leaves in a folder, one set of files per type:

NAME.blocks -> NAME.decoded by the gguf package
x.f32 -> NAME.encoded by the package where it can
NAME.blocks -> NAME.peer-decoded by llama.cpp, where llama_cpp is installed
x.f32, importance.f32 -> NAME.peer and NAME.peer-importance by llama.cpp's quantizer

Run: python oracle.py FOLDER
"""

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from make_vectors import TYPES, decode

COLUMNS = 1024


def peer_library() -> ctypes.CDLL | None:
    spec = find_spec("llama_cpp")
    if spec is None:
        return None
    library = ctypes.CDLL(str(next(Path(spec.submodule_search_locations[0]).glob("lib/*ggml-base.*"))))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, size, size, size, pointer]
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    return library


def peer_encode(library: ctypes.CDLL, qtype, x: np.ndarray, importance: np.ndarray | None) -> np.ndarray:
    if importance is None and qtype.name.startswith(("IQ1", "IQ2")):
        importance = np.ones(COLUMNS, np.float32)  # without any, llama.cpp refuses these
    weights = None if importance is None else importance.ctypes.data
    block, size = GGML_QUANT_SIZES[qtype]
    out = np.zeros(x.size // block * size, np.uint8)
    rows = x.size // COLUMNS
    library.ggml_quantize_chunk(int(qtype), x.ctypes.data, out.ctypes.data, 0, rows, COLUMNS, weights)
    return out


def peer_decode(library: ctypes.CDLL, qtype, blocks: np.ndarray) -> np.ndarray:
    function = library["dequantize_row_" + qtype.name.lower().replace("_k", "_K")]
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    out = np.zeros(len(blocks) * GGML_QUANT_SIZES[qtype][0], np.float32)
    function(blocks.ctypes.data, out.ctypes.data, out.size)
    return out


def main(folder: Path) -> None:
    np.seterr(all="ignore")
    x = np.fromfile(folder / "x.f32", np.float32)
    importance = np.fromfile(folder / "importance.f32", np.float32)
    library = peer_library()
    for name in TYPES:
        qtype = gguf.GGMLQuantizationType[name]
        blocks = np.fromfile(folder / f"{name}.blocks", np.uint8).reshape(-1, GGML_QUANT_SIZES[qtype][1])
        decode(qtype, blocks).astype(np.float32).tofile(folder / f"{name}.decoded")
        try:
            gguf.quantize(x.reshape(-1, COLUMNS), qtype).tofile(folder / f"{name}.encoded")
        except NotImplementedError:
            pass
        if library is not None and GGML_QUANT_SIZES[qtype][0] > 1:
            peer_decode(library, qtype, blocks).tofile(folder / f"{name}.peer-decoded")
            peer_encode(library, qtype, x, None).tofile(folder / f"{name}.peer")
            peer_encode(library, qtype, x, importance).tofile(folder / f"{name}.peer-importance")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
