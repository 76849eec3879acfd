"""Adapters beside a model, chosen by each request: lora.py [MODEL]

The adapter is made here, from random numbers: a folder as PEFT saves it. It shows the mechanics, not good text.
"""

import json
import struct
import sys
import tempfile
from pathlib import Path

import lamina
import numpy as np

PROMPT = "Once upon a time"


def adapter(folder, config, rank=4):
    """Writes an adapter for the queries of all layers of a Llama."""
    hidden, random = config["hidden_size"], np.random.default_rng(1)
    header, data = {}, b""
    for layer in range(config["num_hidden_layers"]):
        for letter, shape, size in (("A", (rank, hidden), hidden**-0.5), ("B", (hidden, rank), 1.0)):
            values = random.normal(0, size, shape).astype("<f4").tobytes()
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{letter}.weight"
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (len(data), len(data) + len(values))}
            data += values
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank}))
    return folder


with tempfile.TemporaryDirectory() as temporary:
    with lamina.LLM(*sys.argv[1:2]) as llm:
        config = llm.config
    path = adapter(Path(temporary), config)
    with lamina.LLM(*sys.argv[1:2], loras={"random": path}) as llm:
        print("adapters:", llm.loras)
        # Requests with other scales, and without the adapter, run in one batch.
        scales = [None, {"random": 0.5}, {"random": 1.0}]
        texts = [llm.generate(PROMPT, max_tokens=20, temperature=0, lora=lora).text for lora in scales]
        for lora, text in zip(scales, texts):
            print(f"{lora}: {text!r}")
        print("the adapter changes the text:", texts[0] != texts[2])
