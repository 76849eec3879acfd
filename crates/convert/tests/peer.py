"""For each line of JSON on stdin {"file", "ids"} the logits that llama.cpp gives for every position, one JSON line each.

Answers {"logits": [...]} or {"error": "..."}. Needs llama-cpp-python.
"""
import json
import os
import sys

import llama_cpp
import numpy as np


def evaluate(path, ids):
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if not model:
        return {"error": "does not load"}
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, 1024, 1024
    params.type_k = params.type_v = 0
    params.flash_attn_type = 0
    params.n_threads = params.n_threads_batch = 2
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        return {"error": "no context"}
    n = len(ids)
    batch = llama_cpp.llama_batch_init(n, 0, 1)
    batch.n_tokens = n
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if llama_cpp.llama_decode(context, batch) != 0:
        return {"error": "does not decode"}
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=(n * vocab,)).tolist()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return {"logits": logits}


LOG = []


@llama_cpp.llama_log_callback
def log(level, text, data):
    if level in (3, 4):
        LOG.append(text.decode(errors="replace").strip())


llama_cpp.llama_log_set(log, None)
for line in sys.stdin:
    request = json.loads(line)
    LOG.clear()
    answer = evaluate(request["file"], request["ids"])
    if "error" in answer:
        answer["error"] += ": " + " | ".join(LOG)[-300:]
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
