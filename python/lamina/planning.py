"""What a model will take, and how fast it will be, told before it is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _lamina, builtin, checks, loading
from .foreign import LOADING, understands
from .policy import Policy
from .tint import memory_bar
from .types import Path


@dataclass(frozen=True)
class Plan:
    """What a model will take of memory and disk, and how fast it will be; printed, it reads like `lamina plan`."""

    fits: bool
    """Whether it can be loaded."""
    problem: Optional[str]
    """Why not."""
    model: Dict[str, Any]
    """`bytes` of weights, `bytes_per_token`, `layers`, `experts`, `experts_per_token`."""
    memory: Dict[str, Any]
    """`budget`, `total` and `parts` in bytes."""
    placement: Dict[str, Dict[str, int]]
    """Bytes of the weights of each class (`attention`, `ffn`, `experts`..) on a `device`, in `memory`, and on `disk` alone."""
    pictures: Optional[Dict[str, Any]]
    """`encoder`, `mmproj`, `device` (where that is not the model's), `weight_bytes` and `working_bytes` of the encoder of
    pictures, and of the `image` that was asked about `size`, `resized`, `patches`, `tokens` and `row_bytes` as `picture`; None
    where the model takes text only."""
    sounds: Optional[Dict[str, Any]]
    """`encoder`, `mmproj`, `device` (where that is not the model's), `weight_bytes` and `working_bytes` of the encoder of
    sound, and of the `audio` that was asked about `seconds`, `pieces`, `encoded`, `tokens` and `row_bytes` as `sound`; None
    where the model does not hear."""
    context: int
    """Longest sequence in tokens."""
    context_cut_from: Optional[int]
    """Tokens that the model was made for, where memory holds fewer and nobody asked for a length."""
    disk: Optional[Dict[str, Any]]
    """`step_bytes` that every step reads, `read_gb_s`, `missing_bytes` that a load writes first; of mixtures
    `expert_hit_share`, the predicted share of a token's experts that is in memory; None where all weights are."""
    device: Optional[Dict[str, Any]]
    """`name`, `budget`, `total` and `parts` in bytes, and `link_gb_s` of a device beside the host; None where one machine has
    all."""
    swap: Optional[Dict[str, Any]]
    """`memory_bytes` and `disk_bytes` that preempted requests may take, and for how many `tokens`; None where they are
    computed again."""
    draft: Optional[Dict[str, Any]]
    """What guesses ahead by computing: `name`, `guess_s`, and `decode` of one sequence for some shares of right guesses
    (`accepted`, `guesses`, `tok_s`); None where nothing does."""
    predict: Dict[str, List[Dict[str, Any]]]
    """`decode`, `prefill` and `jobs`, each a list with `tok_s`, and what limits it (`bound`: `disk`, `computing`,
    or `waiting for experts`)."""
    hardware: Dict[str, Any]
    """Measured speeds of this machine."""
    advice: List[Dict[str, Any]]
    """What could be changed for more speed (`change`, `tok_s`), the best first."""
    machines: List[Dict[str, Any]]
    """For each number of `machines` that was asked about, with the `link`: `stages` with `layers` and bytes of `memory` of each machine, `context`,
    `decode` and `prefill`, or the `problem` that forbids them; `shards` with as much, but `rounds` of a step in place of layers; `replicas`, each with the whole model: `batch` and `tok_s`."""
    text: str
    """The report of `lamina plan`."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return memory_bar(self.memory, self.text)


@understands(LOADING)
def plan(
    path: Optional[Path] = None,
    *,
    batch: Union[int, Sequence[int]] = 1,
    prompt: Union[int, Sequence[int]] = 512,
    gen: int = 128,
    context: Optional[int] = None,
    kv_dtype: str = "f16",
    dtype: str = "auto",
    threads: Optional[int] = None,
    device: str = "auto",
    loras: Optional[Dict[str, Path]] = None,
    draft: Optional[Path] = None,
    memory: Union[str, int, None] = None,
    device_memory: Union[str, int, None] = None,
    offload: Union[str, Policy] = "auto",
    panel_cache: Optional[Path] = None,
    kv_swap: Union[str, int, None] = None,
    offline: bool = False,
    measure: bool = False,
    mmproj: Union[Path, bool, None] = None,
    mmproj_device: str = "auto",
    image_cache: Union[str, int, None] = None,
    image_max_tokens: Optional[int] = None,
    image_min_tokens: Optional[int] = None,
    image: Optional[Tuple[int, int]] = None,
    audio: Optional[float] = None,
    machines: Union[int, Sequence[int]] = (),
    link: str = "10GbE",
) -> Plan:
    """Tells what a model will take and how fast it will be, from its headers and the speeds of this machine.

    Args:
        batch: sequences that decode at once, or several such numbers.
        prompt: length of the prompts, or several; decoding is told behind the first.
        gen: tokens of an answer.
        measure: measures the machine anew; else its speeds are kept for a month. That of the disk is always measured.
        path: as for `LLM`.
        context: as for `LLM`.
        kv_dtype: as for `LLM`.
        dtype: as for `LLM`.
        threads: as for `LLM`.
        device: as for `LLM`.
        loras: as for `LLM`.
        draft: as for `LLM`.
        memory: as for `LLM`.
        device_memory: as for `LLM`.
        offload: as for `LLM`.
        panel_cache: as for `LLM`.
        kv_swap: as for `LLM`.
        mmproj: as for `LLM`.
        mmproj_device: as for `LLM`.
        image_cache: as for `LLM`.
        image_max_tokens: as for `LLM`.
        image_min_tokens: as for `LLM`.
        image: width and height in pixels of a picture that shall be told about.
        audio: seconds of a sound that shall be told about.
        offline: as for `LLM`.
        machines: how many machines like this one, or several such numbers: what they make of it as stages, as shards, and as replicas.
        link: what lies between them: `1GbE`, `2.5GbE`, `10GbE`, `25GbE`, `100GbE`, or the time of a message and a rate,
            such as `35us,1.15GB/s`; or the `host:port` of a `lamina rank`, to which it is measured.

    Returns:
        What was found; a model that does not fit is no error: `fits` says so.
    """
    found, text = _lamina.plan(
        builtin.path() if path is None else path,
        loading.options(locals()),
        loading.paths("loras", loras),
        batch=_counts("batch", batch),
        prompt=_counts("prompt", prompt),
        gen_tokens=checks.whole("gen", gen, 1),
        measure=bool(measure),
        image=None if image is None else (checks.whole("image", image[0]), checks.whole("image", image[1])),
        audio=None if audio is None else checks.number("audio", audio),
        machines=_counts("machines", machines),
        link=checks.text("link", link),
    )
    return Plan(**json.loads(found), text=text)


def _counts(name: str, value: Union[int, Sequence[int]]) -> List[int]:
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return [checks.whole(name, one, 1) for one in listed]
