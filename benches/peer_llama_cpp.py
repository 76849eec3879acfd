"""llama.cpp behind a pipe, for peers.py: one argument, the job as JSON; a seed per line in, speeds per line out."""

import ctypes
import json
import random
import sys
import time

import llama_cpp as ll

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "bf16": 30}
ROWS = 512


class Engine:
    """A model and a context with room for all sequences, and for `spare` tokens of one more, by which caches are filled."""

    def __init__(self, job, spare=0):
        self.batch_size, self.depth = job["batch"], job["depth"]
        room = job["depth"] + max(job["prompt"], job["gen"] + 8) + 64
        ll.llama_backend_init()
        params = ll.llama_model_default_params()
        # Repacked weights are a copy in memory, which no system can drop: not for models that do not fit.
        params.use_extra_bufts = job.get("repack", True)
        self.model = ll.llama_model_load_from_file(job["model"].encode(), params)
        context = ll.llama_context_default_params()
        context.n_ctx = room * self.batch_size + spare
        context.n_seq_max = self.batch_size + bool(spare)
        context.kv_unified = bool(spare)
        context.n_batch = context.n_ubatch = ROWS
        context.n_threads = context.n_threads_batch = job["threads"]
        context.flash_attn_type = 1
        context.type_k = context.type_v = TYPES[job["kv"]]
        self.context = ll.llama_init_from_model(self.model, context)
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self.memory = ll.llama_get_memory(self.context)
        self.batch = ll.llama_batch_init(max(ROWS, self.batch_size), 0, 1)

    def run(self, rows):
        """One step over (token, position, sequence) triples; logits of the last row of each sequence."""
        self.batch.n_tokens = len(rows)
        last = {seq: i for i, (_, _, seq) in enumerate(rows)}
        for i, (token, position, seq) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, seq
            self.batch.logits[i] = last[seq] == i
        if ll.llama_decode(self.context, self.batch) != 0:
            raise SystemExit("llama_decode failed")
        ctypes.cast(ll.llama_get_logits_ith(self.context, len(rows) - 1), ctypes.c_void_p)

    def fill(self, seq, tokens, start=0):
        for i in range(0, len(tokens), ROWS):
            self.run([(t, start + i + k, seq) for k, t in enumerate(tokens[i : i + ROWS])])

    def deepen(self, seq, tokens):
        """Fills the cache of a sequence in pieces that do not see each other, which takes no attention between them: what is
        measured behind them does as much with what they hold as with any other numbers."""
        other = self.batch_size
        for start in range(0, len(tokens), ROWS):
            self.fill(other, tokens[start : start + ROWS], start)
            ll.llama_memory_seq_cp(self.memory, other, seq, -1, -1)
            ll.llama_memory_seq_rm(self.memory, other, -1, -1)

    def cut(self, position):
        """Forgets what stands at and behind `position` in all sequences."""
        for seq in range(self.batch_size):
            ll.llama_memory_seq_rm(self.memory, seq, position, -1)


def instructions():
    """What llama.cpp was built for, such as "AVX2 FMA AVX512"."""
    parts = ll.llama_print_system_info().decode().replace("CPU :", "").split("|")
    return " ".join(part.split("=")[0].strip() for part in parts if part.strip().endswith("= 1"))


def main():
    job = json.loads(sys.argv[1])
    engine = Engine(job, spare=ROWS if job["depth"] else 0)
    depth, n = job["depth"], job["gen"]
    source = random.Random(7)
    tokens = lambda n: [source.randrange(100, engine.vocab - 100) for _ in range(n)]
    for seq in range(engine.batch_size):
        engine.deepen(seq, tokens(depth))
    for line in sys.stdin:
        source = random.Random(int(line))
        prompt = tokens(job["prompt"])
        begin = time.perf_counter()
        engine.fill(0, prompt, depth)
        prefill = time.perf_counter() - begin
        engine.cut(depth)
        for seq in range(engine.batch_size):
            engine.fill(seq, tokens(8), depth)
        begin = time.perf_counter()
        for i in range(n):
            engine.run([(tokens(1)[0], depth + 8 + i, seq) for seq in range(engine.batch_size)])
        decode = time.perf_counter() - begin
        engine.cut(depth)
        speeds = {"prefill": len(prompt) / prefill, "decode": n * engine.batch_size / decode}
        print(json.dumps({**speeds, "instructions": instructions()}), flush=True)


if __name__ == "__main__":
    main()
