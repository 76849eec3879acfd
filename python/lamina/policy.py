"""Where the weights of a model lie, and what its requests are served for, as far as its user says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple


@dataclass(frozen=True)
class Policy:
    """Where weights lie, for `LLM(offload=...)` and `plan`: rules, or FlexGen's percentages; and what for. Answers are the
    same whatever it says, but for the approximations `defer_experts`, `fewer_experts`, `attention_sparsity` and
    `sparse_prefill`, which nothing else chooses."""

    weights: Optional[Tuple[int, int]] = None
    """Percent of the weights on a device and in memory, the rest on disk; None: as many in memory as fit."""
    kv: Tuple[int, int] = (0, 100)
    """The same for layers of the cache: the first ones are on disk, and are read from it in every step."""
    activations: Tuple[int, int] = (0, 100)
    """The same for activations, which are where operators run."""
    rules: Sequence[str] = ()
    """`WHAT=device`, `WHAT=ram` or `WHAT=disk`, the first match decides: WHAT is a class (attention ffn experts shared head
    embedding), one of some layers (`ffn 0-9`), layers (`layers 0-9`), a regular expression over names of tensors, or the
    cache (`kv`, `kv 0-9`). `WHAT=up` stays in memory and is sent to the device in every
    step, `WHAT=disk-up` is read from disk and sent."""
    n_cpu_moe: Optional[int] = None
    """Experts of so many first layers stay in memory, beside a GPU too."""
    n_gpu_layers: Optional[int] = None
    """Layers of which weights lie on the GPU, the last ones; one more is the output matrix. None: as many as fit."""
    objective: str = "latency"
    """`"throughput"` for jobs of many prompts that count as a whole: prompts are computed before answers go on."""

    defer_experts: int = 0
    """Each token's so many experts of least weight add their result one layer later: there is more time to read them.
    Approximate (KTransformers' expert deferral)."""
    fewer_experts: Optional[Tuple[int, float]] = None
    """`(4, 0.1)` keeps 4 of a token's experts in any case, and others from 0.1 of the largest weight on. Approximate
    (ik_llama.cpp's `-ser`)."""
    attention_sparsity: Optional[float] = None
    """Answers read this share of the values of attention, those with the largest weights, such as 0.1 (FlexGen's sparse
    attention): an approximation. None: all."""
    sparse_prefill: Optional[float] = None
    """Rows of prompts attend to this share of the blocks of 64 tokens between the first one and the last two, those whose
    mean key they look at most: an approximation. None: all."""
