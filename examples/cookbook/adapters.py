"""Two tenants, two adapters, one batch: each answer is that of its own adapter alone."""

import json
import struct
import sys
import tempfile
from pathlib import Path

import lamina
import numpy as np


def made(folder, llm, seed):
    """An adapter with random weights in PEFT's form; yours comes from training."""
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 64, "target_modules": ["q_proj"]}
    Path(folder).mkdir()
    Path(folder, "adapter_config.json").write_text(json.dumps(config))
    hidden, random = llm.info.hidden, np.random.default_rng(seed)
    header, data = {}, b""
    for part, shape in (("lora_A", (4, hidden)), ("lora_B", (hidden, 4))):
        values = random.normal(0, 0.3, shape).astype("<f4").tobytes()
        name = f"base_model.model.model.layers.0.self_attn.q_proj.{part}.weight"
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    Path(folder, "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def main(model=None):
    with tempfile.TemporaryDirectory() as folder:
        with lamina.LLM(model, progress=False) as plain:
            loras = {name: made(f"{folder}/{name}", plain, seed) for seed, name in enumerate(("north", "south"))}
        with lamina.LLM(model, loras=loras, progress=False) as llm:
            print("adapters:", *llm.loras)
            ask = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
            alone = {name: llm.generate(**ask, lora=name).text for name in loras}
            # Streams that are open together run as one batch; each has the adapter that it named.
            streams = {name: llm.stream(**ask, lora=name) for name in loras}
            together = {name: "".join(piece.text for piece in stream) for name, stream in streams.items()}
            print("each has its own:", alone["north"] != alone["south"])
            print("alone and together the same:", alone == together)
            print("both, at half strength:", repr(llm.generate(**ask, lora={"north": 0.5, "south": 0.5}).text))


if __name__ == "__main__":
    main(*sys.argv[1:])
