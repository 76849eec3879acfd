"""llama.cpp's encoder of pictures behind a pipe, for vision.py: one argument, the job as JSON; a line in, seconds as a line out."""

import ctypes
import json
import sys
import time

import llama_cpp as ll
from llama_cpp import mtmd_cpp as mtmd


def noise(width, height):
    """The picture that `lamina bench --image` makes."""
    state, samples = 1, bytearray()
    for _ in range(width * height * 3):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        samples.append(state >> 24)
    return bytes(samples)


def main():
    job = json.loads(sys.argv[1])
    ll.llama_backend_init()
    model = ll.llama_model_load_from_file(job["model"].encode(), ll.llama_model_default_params())
    params = mtmd.mtmd_context_params_default()
    params.use_gpu, params.print_timings, params.n_threads = False, False, job["threads"]
    context = mtmd.mtmd_init_from_file(job["mmproj"].encode(), model, params)
    width, height = job["size"]
    picture = (ctypes.c_uint8 * (width * height * 3)).from_buffer_copy(noise(width, height))
    bitmap = mtmd.mtmd_bitmap_init(width, height, picture)
    marker = mtmd.mtmd_default_marker()
    text = mtmd.mtmd_input_text(marker, len(marker), True, True)
    for _ in sys.stdin:
        chunks = mtmd.mtmd_input_chunks_init()
        begin = time.perf_counter()
        if mtmd.mtmd_tokenize(context, chunks, ctypes.byref(text), (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap), 1) != 0:
            raise SystemExit("mtmd_tokenize failed")
        resized = time.perf_counter()
        found = [mtmd.mtmd_input_chunks_get(chunks, i) for i in range(mtmd.mtmd_input_chunks_size(chunks))]
        pictures = [chunk for chunk in found if mtmd.mtmd_input_chunk_get_type(chunk) == 1]
        tokens = sum(mtmd.mtmd_input_chunk_get_n_tokens(chunk) for chunk in pictures)
        for chunk in pictures:
            if mtmd.mtmd_encode_chunk(context, chunk) != 0:
                raise SystemExit("mtmd_encode_chunk failed")
        encoded = time.perf_counter()
        mtmd.mtmd_input_chunks_free(chunks)
        print(json.dumps({"resize": resized - begin, "encode": encoded - resized, "tokens": tokens}), flush=True)


main()
