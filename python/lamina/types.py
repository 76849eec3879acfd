"""What the methods of `LLM` take, for annotations."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

Path = Union[str, "os.PathLike[str]"]
Ids = Union[List[int], Tuple[int, ...], range, NDArray[Any]]
"""Token ids."""
Prompt = Union[str, Ids]
"""Text, or token ids."""
Prompts = Union[List[str], Tuple[str, ...], Sequence[Ids]]
"""Several prompts."""
Message = Dict[str, Any]
"""A turn of a conversation: "role", "content", and what else the template knows."""
Tool = Dict[str, Any]
"""JSON schema of a function that the model may call."""
Lora = Union[None, str, Dict[str, float]]
"""Adapters to use: the name of one, or names and scales."""
Processor = Callable[[NDArray[np.uint32], NDArray[np.float32]], Any]
"""Changes the logits of the token behind those that are given, in place."""
Reasoning = Union[None, bool, int, Dict[str, Any]]
"""Whether a model thinks before it answers, or for how many tokens."""
Image = Any
"""A picture: a path, the bytes of a file, a PIL image, an array of uint8 [height, width, channels], or a data: URL."""
Images = Union[None, Sequence[Image], Sequence[Sequence[Image]]]
"""The pictures of a prompt, or of each of several."""
Sound = Any
"""A sound: a path, the bytes of a file, a data: URL, or samples of one channel and how many there are a second."""
Sounds = Union[None, Sequence[Sound], Sequence[Sequence[Sound]]]
"""The sounds of a prompt, or of each of several."""
