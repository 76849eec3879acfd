"""Parameters of llama-cpp-python's `Llama` and of vLLM's `LLM` and `SamplingParams`: what each is here.

A name either is another word for one of ours, or makes no difference, or asks for what is not here. That is refused
with a message that names what is, unless the value asks for what happens anyway. None is always the same as nothing.
"""

from __future__ import annotations

import difflib
import functools
from typing import Any, Callable, Dict, Iterable, TypeVar, cast

from .errors import InvalidRequestError, UnsupportedError
from .policy import Policy

Meaning = Callable[[str, Any], Dict[str, Any]]
"""What a parameter says, given its name and its value, in our names."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


def _ours(name: str, change: Callable[[Any], Any] = lambda value: value) -> Meaning:
    """Another word for `name`, whose value is written so."""
    return lambda _, value: {name: change(value)}


def _no_difference(_name: str, _value: Any) -> Dict[str, Any]:
    """Answers are the same whatever it says."""
    return {}


def _only(*usual: Any, instead: str) -> Meaning:
    """Values that ask for what happens anyway; others are refused."""

    def meaning(name: str, value: Any) -> Dict[str, Any]:
        if not any(value is one or (type(value) is type(one) and value == one) for one in usual):
            raise UnsupportedError(f"{name}={value!r} is not supported: {instead}")
        return {}

    return meaning


def _layers(name: str, value: Any) -> Dict[str, Any]:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequestError(f"{name} takes a whole number of layers, but {value!r} was given")
    if value == 0:
        return {"device": "cpu"}
    return {} if value < 0 else {"offload": Policy(n_gpu_layers=value)}


def _gpu(name: str, value: Any) -> Dict[str, Any]:
    return {} if value == 0 else {"device": f"cuda:{value}"}


_GGML_TYPES = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 8: "q8_0", 30: "bf16"}
"""Types of cached keys and values by llama.cpp's numbers."""


def _cached(letter: str) -> Meaning:
    def meaning(name: str, value: Any) -> Dict[str, Any]:
        if value not in _GGML_TYPES:
            raise UnsupportedError(f"{name}={value!r} is not supported: kv_dtype takes {', '.join(_GGML_TYPES.values())}")
        return {"kv_dtype": f"{letter}={_GGML_TYPES[value]}"}

    return meaning


def _draft(name: str, value: Any) -> Dict[str, Any]:
    guesses = 'draft takes "ngram", "lookahead", "auto", "mtp" or the path of a smaller model'
    if isinstance(value, dict):
        value = value.get("model") or value.get("method")
    if not isinstance(value, (str, bytes)) and not hasattr(value, "__fspath__"):
        raise UnsupportedError(f"{name} of this kind is not supported: {guesses}")
    return {"draft": value}


_ROPE = "positions are as the model's file says"
_LOCAL = "nothing is downloaded: path takes a GGUF file or a folder with config.json"
_ONE = "a model runs on one device and the CPU, which `device` names"
_STAGES = 'stages="HOST:PORT,HOST:PORT" names processes of `lamina rank` that compute layers'
_FILE = 'the file says how its weights are quantized, and dtype="q4_k" quantizes them while loading'
_ADAPTER = "loras={name: path} loads adapters, and lora=name in a request uses them"
_PICTURES = "pictures are given by their paths, bytes or pixels, and never fetched"
_TEMPLATE = "chat takes chat_template, and chat_format for how calls are written"

LLAMA: Dict[str, Meaning] = {
    "model_path": _ours("path"),
    "n_gpu_layers": _layers,
    "split_mode": _no_difference,
    "main_gpu": _gpu,
    "tensor_split": _only(instead=_ONE),
    "rpc_servers": _ours("stages", lambda servers: servers or ""),
    "vocab_only": _only(False, instead="a model is loaded whole"),
    "use_mmap": _no_difference,
    "use_mlock": _no_difference,
    "kv_overrides": _only({}, instead="a file is read as it is"),
    "n_ctx": _ours("context", lambda tokens: tokens or None),
    "n_batch": _no_difference,
    "n_ubatch": _no_difference,
    "n_threads": _ours("threads"),
    "n_threads_batch": _only(instead="prompts and answers are computed by as many threads as `threads` says"),
    "rope_scaling_type": _only(-1, instead=_ROPE),
    "pooling_type": _only(-1, instead="embed makes one row of a text as the model's file says, and hidden gives all rows"),
    "attention_type": _only(-1, instead="attention is as the model's file says"),
    "rope_freq_base": _only(0, 0.0, instead=_ROPE),
    "rope_freq_scale": _only(0, 0.0, instead=_ROPE),
    "yarn_ext_factor": _only(-1, -1.0, instead=_ROPE),
    "yarn_attn_factor": _only(1, 1.0, instead=_ROPE),
    "yarn_beta_fast": _only(32, 32.0, instead=_ROPE),
    "yarn_beta_slow": _only(1, 1.0, instead=_ROPE),
    "yarn_orig_ctx": _only(0, instead=_ROPE),
    "logits_all": _no_difference,
    "embedding": _no_difference,
    "offload_kqv": _only(True, instead="offload=Policy(kv=...) says where the cache lies"),
    "flash_attn": _no_difference,
    "op_offload": _no_difference,
    "swa_full": _no_difference,
    "no_perf": _no_difference,
    "last_n_tokens_size": _only(64, instead="repeat_last_n is an option of generate"),
    "lora_base": _only(instead=_ADAPTER),
    "lora_scale": _only(1, 1.0, instead=_ADAPTER),
    "lora_path": _only(instead=_ADAPTER),
    "numa": _no_difference,
    "chat_format": _only(instead=_TEMPLATE),
    "chat_handler": _only(instead=f"mmproj takes the file of an encoder of pictures; {_TEMPLATE}"),
    "draft_model": _draft,
    "tokenizer": _only(instead="texts are read by the model's own tokenizer; prompts may be token ids"),
    "type_k": _cached("k"),
    "type_v": _cached("v"),
    "spm_infill": _only(False, instead="the server's /infill reads gaps as the model's file says"),
    "verbose": _ours("progress", bool),
}
"""Parameters of llama-cpp-python's `Llama` that are not ours."""

VLLM: Dict[str, Meaning] = {
    "model": _ours("path"),
    "runner": _only("auto", "generate", "pooling", instead="every model answers and embeds, as far as it can"),
    "convert": _only("auto", "none", instead="every model answers and embeds, as far as it can"),
    "task": _only("auto", "generate", "embed", instead="every model answers and embeds, as far as it can"),
    "tokenizer_mode": _only("auto", instead="texts are read by the model's own tokenizer"),
    "skip_tokenizer_init": _only(False, instead="a model without a tokenizer takes token ids by itself"),
    "trust_remote_code": _no_difference,
    "allowed_local_media_path": _only("", instead=_PICTURES),
    "allowed_media_domains": _only(instead=_PICTURES),
    "tensor_parallel_size": _ours("tp"),
    "pipeline_parallel_size": _only(1, instead=_STAGES),
    "data_parallel_size": _only(1, instead=_ONE),
    "enable_expert_parallel": _only(False, instead=_ONE),
    "distributed_executor_backend": _no_difference,
    "quantization": _only(instead=_FILE),
    "load_format": _only("auto", "safetensors", "gguf", instead="a GGUF file or a folder with safetensors is read"),
    "config_format": _only("auto", "hf", instead="a folder is read by its config.json"),
    "revision": _only(instead=_LOCAL),
    "code_revision": _only(instead=_LOCAL),
    "tokenizer_revision": _only(instead=_LOCAL),
    "hf_token": _only(instead=_LOCAL),
    "hf_config_path": _only(instead=_LOCAL),
    "hf_overrides": _only({}, instead="a model is read as its files say"),
    "download_dir": _only(instead=_LOCAL),
    "chat_template": _only(instead="chat takes chat_template"),
    "served_model_name": _no_difference,
    "max_model_len": _ours("context"),
    "kv_cache_dtype": _ours("kv_dtype", lambda name: "f16" if name == "auto" else name),
    "calculate_kv_scales": _no_difference,
    "gpu_memory_utilization": _ours("device_memory", lambda part: f"{round(100 * part)}%"),
    "kv_cache_memory_bytes": _only(instead="memory and device_memory bound all that the process takes"),
    "swap_space": _ours("kv_swap", lambda size: f"ram:{size}GiB" if size else None),
    "cpu_offload_gb": _only(0, 0.0, instead="weights beyond device_memory lie in memory and on disk by themselves"),
    "enforce_eager": _no_difference,
    "max_seq_len_to_capture": _no_difference,
    "disable_custom_all_reduce": _no_difference,
    "disable_async_output_proc": _no_difference,
    "disable_sliding_window": _only(False, instead="attention is as the model's file says"),
    "disable_cascade_attn": _no_difference,
    "block_size": _no_difference,
    "num_gpu_blocks_override": _no_difference,
    "enable_prefix_caching": _only(True, instead="computed beginnings are always shared"),
    "prefix_caching_hash_algo": _no_difference,
    "enable_chunked_prefill": _no_difference,
    "max_num_batched_tokens": _no_difference,
    "max_num_seqs": _no_difference,
    "max_num_partial_prefills": _no_difference,
    "max_long_partial_prefills": _no_difference,
    "long_prefill_token_threshold": _no_difference,
    "max_logprobs": _no_difference,
    "num_scheduler_steps": _no_difference,
    "scheduling_policy": _no_difference,
    "async_scheduling": _no_difference,
    "preemption_mode": _no_difference,
    "disable_log_stats": _no_difference,
    "max_parallel_loading_workers": _no_difference,
    "rope_scaling": _only({}, instead=_ROPE),
    "rope_theta": _only(instead=_ROPE),
    "enable_lora": _no_difference,
    "max_loras": _no_difference,
    "max_lora_rank": _no_difference,
    "max_cpu_loras": _no_difference,
    "fully_sharded_loras": _no_difference,
    "lora_dtype": _only("auto", instead="adapters keep their types"),
    "lora_modules": _only(instead=_ADAPTER),
    "enable_prompt_adapter": _only(False, instead=_ADAPTER),
    "limit_mm_per_prompt": _only({}, instead='image_limit="count=N" bounds the pictures of a request'),
    "mm_processor_kwargs": _only({}, instead="image_max_tokens and image_min_tokens bound a picture"),
    "mm_processor_cache_gb": _no_difference,
    "disable_mm_preprocessor_cache": _no_difference,
    "pooler_config": _only(instead="embed makes one row of a text as the model's file says"),
    "override_pooler_config": _only(instead="embed makes one row of a text as the model's file says"),
    "guided_decoding_backend": _no_difference,
    "structured_outputs_config": _no_difference,
    "reasoning_parser": _no_difference,
    "logits_processors": _only([], instead="generate takes processor=f, and logit_bias and grammar"),
    "logits_processor_pattern": _only(instead="logit_bias and grammar are options of generate"),
    "speculative_config": _draft,
    "speculative_model": _draft,
    "num_speculative_tokens": _only(instead="generate takes speculate=N"),
    "generation_config": _only("auto", "vllm", instead="generate takes its options by name"),
    "override_generation_config": _only({}, instead="generate takes its options by name"),
    "enable_sleep_mode": _only(False, instead="close ends a model and gives its memory back"),
    "model_impl": _only("auto", "vllm", instead="every model runs on Lamina's own operators"),
    "attention_config": _no_difference,
    "compilation_config": _no_difference,
    "kv_transfer_config": _only(instead="save_state and cache_dir keep what was computed"),
    "worker_cls": _no_difference,
    "profiler_config": _no_difference,
}
"""Parameters of vLLM's `LLM` that are not ours."""

LOADING: Dict[str, Meaning] = {**LLAMA, **VLLM}

SAMPLING: Dict[str, Meaning] = {
    "best_of": _only(1, instead="n gives several answers with their logprobs"),
    "use_beam_search": _only(False, instead="LLM.beam searches"),
    "length_penalty": _only(1, 1.0, instead="LLM.beam takes it"),
    "early_stopping": _only(False, instead="LLM.beam takes it"),
    "prompt_logprobs": _only(instead="echo=True with logprobs=N tells those of the prompt"),
    "prompt_logprob_token_ids": _only(instead="LLM.logits gives those of all tokens at every position"),
    "prompt_logprob_start": _only(instead="LLM.logits gives those of all tokens at every position"),
    "logprob_token_ids": _only([], instead="logprobs=N tells the most likely tokens"),
    "flat_logprobs": _no_difference,
    "detokenize": _only(True, instead="answers have their tokens beside the text"),
    "skip_special_tokens": _only(True, instead="answers have their tokens beside the text"),
    "spaces_between_special_tokens": _no_difference,
    "output_kind": _no_difference,
    "stream_interval": _no_difference,
    "skip_clone": _no_difference,
    "output_text_buffer_length": _no_difference,
    "guided_decoding": _ours("structured_outputs"),
    "allowed_token_ids": _only([], instead="grammar, regex and choice say what an answer must look like"),
    "bad_words": _only([], instead="logit_bias={token: -100} keeps a token from answers"),
    "logits_processors": _only([], instead="processor takes one function of tokens and logits; logit_bias and grammar are quicker"),
    "extra_args": _only({}, instead="options are given by name"),
    "truncate_prompt_tokens": _only(-1, instead="a prompt is never cut"),
    "skip_reading_prefix_cache": _only(False, instead="computed beginnings are always shared"),
    "thinking_token_budget": _only(-1, instead="chat takes reasoning=N"),
    "repetition_detection": _only(instead="dry_multiplier and repeat_penalty keep answers from repeating"),
    "routed_experts_prompt_start": _only(0, instead="the choice of experts is not told"),
    "trace_decode_token_ids": _only([], instead="LLM.logits gives the logits of tokens that are given"),
}
"""Parameters of vLLM's `SamplingParams` that are not ours."""


def translated(given: Dict[str, Any], known: Iterable[str], table: Dict[str, Meaning]) -> Dict[str, Any]:
    """Keywords under our names. One that neither we nor the others have is a TypeError that names the nearest."""
    ours, all_known = {*known}, [*known, *table]
    found = {name: value for name, value in given.items() if name in ours}
    said = {name: name for name in found}
    for theirs, value in ((name, value) for name, value in given.items() if name not in ours):
        if theirs not in table:
            near = difflib.get_close_matches(theirs, all_known, 1)
            raise TypeError(f"there is no option {theirs!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        for name, ours_value in ({} if value is None else table[theirs](theirs, value)).items():
            if name not in ours:
                # Of loading alone: it changes nothing here.
                continue
            if name == "kv_dtype" and said.get(name) in ("type_k", "type_v"):
                ours_value = f"{found[name]},{ours_value}"
            elif name in said:
                raise TypeError(f"{name!r} is given twice, as {said[name]!r} and as {theirs!r}")
            found[name], said[name] = ours_value, theirs
    return found


def understands(table: Dict[str, Meaning]) -> Callable[[_Call], _Call]:
    """Lets a function take keywords by the names in `table`, too."""

    def decorate(call: _Call) -> _Call:
        names = call.__code__.co_varnames[: call.__code__.co_argcount + call.__code__.co_kwonlyargcount]

        @functools.wraps(call)
        def with_others(*args: Any, **options: Any) -> Any:
            positional = dict(zip(names, args))
            options = translated(options, [name for name in names if name != "self"], table)
            twice = next((name for name in options if name in positional), None)
            if twice is not None:
                raise TypeError(f"{twice!r} is given twice")
            return call(*args, **options)

        return cast(_Call, with_others)

    return decorate
