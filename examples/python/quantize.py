"""A smaller file, and what it costs: quantize.py [MODEL]

The command does the work; `lamina convert FOLDER OUT.gguf` makes such a file from a Hugging Face folder.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import lamina

TEXT = "Once upon a time there was a little girl named Lily. She had a red ball and a small dog. One day they went to the park."

with tempfile.TemporaryDirectory() as folder:
    with lamina.LLM(*sys.argv[1:2]) as llm:
        source = llm.info.path
        rows = [("as it is", llm.info.type, llm.info.bytes, llm.perplexity(TEXT).ppl)]
    for mix in ("Q6_K", "Q4_K_M"):
        small = Path(folder) / f"{mix}.gguf"
        subprocess.run([sys.executable, "-m", "lamina", "quantize", source, small, mix], check=True)
        with lamina.LLM(small) as llm:
            rows.append((mix, llm.info.type, llm.info.bytes, llm.perplexity(TEXT).ppl))
    for name, stored, size, ppl in rows:
        print(f"{name:10} {stored:8} {size / 1e6:8.2f} MB  perplexity {ppl:.3f}")
