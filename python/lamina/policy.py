"""Where the weights of a model lie, and what its requests are served for, as far as its user says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from . import checks


@dataclass(frozen=True)
class Policy:
    """Where weights lie, for `LLM(offload=...)` and `plan`: rules, or FlexGen's percentages; and what for. Answers are always the same."""

    weights: Optional[Tuple[int, int]] = None
    """Percent of the weights on a device and in memory, the rest on disk; None: as many in memory as fit."""
    kv: Tuple[int, int] = (0, 100)
    """The same for layers of the cache, none of which is on disk."""
    activations: Tuple[int, int] = (0, 100)
    """The same for activations, which are where operators run."""
    rules: Sequence[str] = ()
    """`WHAT=device`, `WHAT=ram` or `WHAT=disk`, the first match decides: WHAT is a class (attention ffn experts shared head
    embedding), one of some layers (`ffn 0-9`), layers (`layers 0-9`), a regular expression over names of tensors, or the
    cache (`kv`, `kv 0-9`), which is on a device or in memory."""
    n_cpu_moe: Optional[int] = None
    """Experts of so many first layers stay in memory, beside a GPU too."""
    n_gpu_layers: Optional[int] = None
    """Layers of which weights lie on the GPU, the last ones; one more is the output matrix. None: as many as fit."""
    objective: str = "latency"
    """`"throughput"` for jobs of many prompts that count as a whole: prompts are computed before answers go on."""

    def all_rules(self) -> List[str]:
        """The rules as the binding takes them."""
        rules = [checks.text(f"rules[{i}]", rule) for i, rule in enumerate(self.rules)]
        if self.n_cpu_moe is not None:
            rules.append(f"experts 0-{checks.whole('n_cpu_moe', self.n_cpu_moe, 1) - 1}=ram")
        return rules

    def gpu_layers(self) -> Optional[int]:
        """Layers on the GPU as the binding takes them."""
        return None if self.n_gpu_layers is None else checks.whole("n_gpu_layers", self.n_gpu_layers, 0)

    def percent(self) -> Optional[str]:
        """FlexGen's six numbers; None where nothing is said."""
        if self.weights is None and self.kv == (0, 100) and self.activations == (0, 100):
            return None
        numbers = [*(self.weights or (0, 100)), *self.kv, *self.activations]
        return " ".join(str(checks.whole("percent", n, 0, 100)) for n in numbers)
