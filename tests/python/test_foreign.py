"""Parameters of llama-cpp-python and vLLM: each is understood, makes no difference, or is refused with what there is."""

import inspect

import lamina
import pytest
from lamina import foreign, sampling

LLAMA = """model_path n_gpu_layers split_mode main_gpu tensor_split vocab_only use_mmap use_mlock kv_overrides seed n_ctx
n_batch n_ubatch n_threads n_threads_batch rope_scaling_type pooling_type attention_type rope_freq_base rope_freq_scale
yarn_ext_factor yarn_attn_factor yarn_beta_fast yarn_beta_slow yarn_orig_ctx logits_all embedding offload_kqv flash_attn
op_offload swa_full no_perf last_n_tokens_size lora_base lora_scale lora_path numa chat_format chat_handler draft_model
tokenizer type_k type_v spm_infill verbose""".split()
VLLM = """model runner convert task tokenizer tokenizer_mode skip_tokenizer_init trust_remote_code allowed_local_media_path
tensor_parallel_size pipeline_parallel_size data_parallel_size dtype quantization revision code_revision
tokenizer_revision chat_template seed gpu_memory_utilization swap_space cpu_offload_gb enforce_eager
max_seq_len_to_capture disable_custom_all_reduce disable_async_output_proc hf_token hf_overrides mm_processor_kwargs
pooler_config override_pooler_config compilation_config structured_outputs_config kv_cache_memory_bytes
logits_processors served_model_name load_format config_format kv_cache_dtype max_model_len device block_size
enable_prefix_caching max_num_batched_tokens max_num_seqs max_logprobs enable_lora max_loras max_lora_rank
speculative_config speculative_model num_speculative_tokens scheduling_policy generation_config
override_generation_config enable_sleep_mode rope_scaling rope_theta limit_mm_per_prompt guided_decoding_backend
enable_chunked_prefill worker_cls kv_transfer_config model_impl download_dir disable_log_stats""".split()
SAMPLING = """n presence_penalty frequency_penalty repetition_penalty temperature top_p top_k min_p seed stop stop_token_ids
ignore_eos max_tokens min_tokens logprobs prompt_logprobs prompt_logprob_token_ids prompt_logprob_start logprob_token_ids
flat_logprobs detokenize skip_special_tokens spaces_between_special_tokens include_stop_str_in_output output_kind
stream_interval skip_clone output_text_buffer_length structured_outputs guided_decoding logit_bias allowed_token_ids
extra_args bad_words skip_reading_prefix_cache thinking_token_budget repetition_detection routed_experts_prompt_start
trace_decode_token_ids best_of truncate_prompt_tokens logits_processors""".split()

OURS = [name for name in inspect.signature(lamina.LLM.__init__).parameters if name != "self"]
OPTIONS = [*sampling._DEFAULTS, *sampling._ALIASES, *sampling.ANNOTATIONS]


@pytest.mark.parametrize("name", sorted({*LLAMA, *VLLM} - {*OURS}))
def test_every_parameter_of_loading_is_known(name):
    """And no word of theirs hides one of ours; what it means is said in words of ours."""
    assert name in foreign.LOADING
    assert foreign.translated({name: None}, OURS, foreign.LOADING) == {}
    try:
        meant = foreign.LOADING[name](name, 3)
    except (lamina.UnsupportedError, lamina.InvalidRequestError) as e:
        assert str(e).startswith(name) and len(str(e)) > len(name) + 20
    else:
        assert meant.keys() <= {*OURS}


@pytest.mark.parametrize("name", SAMPLING)
def test_every_parameter_of_sampling_is_known(name):
    assert name in OPTIONS or name in foreign.SAMPLING
    assert lamina.SamplingParams(**{name: None}) == lamina.SamplingParams()


def test_no_word_hides_one_of_ours():
    assert not foreign.LOADING.keys() & {*OURS}
    assert not foreign.SAMPLING.keys() & {*OPTIONS}
    assert not foreign.LLAMA.keys() & foreign.VLLM.keys()


MEANT = [
    ({"model_path": "a", "n_ctx": 0, "n_gpu_layers": -1}, {"path": "a", "context": None}),
    ({"n_ctx": 64, "n_threads": 2, "verbose": False}, {"context": 64, "threads": 2, "progress": False}),
    ({"n_gpu_layers": 0}, {"device": "cpu"}),
    ({"n_gpu_layers": 7}, {"offload": lamina.Policy(n_gpu_layers=7)}),
    ({"type_k": 8, "type_v": 1}, {"kv_dtype": "k=q8_0,v=f16"}),
    ({"main_gpu": 1}, {"device": "cuda:1"}),
    ({"model": "a", "max_model_len": 9, "dtype": "auto"}, {"path": "a", "context": 9, "dtype": "auto"}),
    ({"gpu_memory_utilization": 0.85, "swap_space": 4}, {"device_memory": "85%", "kv_swap": "ram:4GiB"}),
    ({"speculative_config": {"method": "ngram"}}, {"draft": "ngram"}),
    ({"tensor_parallel_size": 2, "trust_remote_code": True, "rope_freq_base": 0.0, "quantization": None}, {"tp": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "meant"), MEANT, ids=str)
def test_parameters_mean_ours(given, meant):
    assert foreign.translated(given, OURS, foreign.LOADING) == meant


REFUSED = [
    ({"pipeline_parallel_size": 2}, lamina.UnsupportedError, "pipeline_parallel_size=2.*lamina rank"),
    ({"lora_path": "x"}, lamina.UnsupportedError, "loras={name: path}"),
    ({"draft_model": Ellipsis}, lamina.UnsupportedError, "ngram"),
    ({"vocab_only": 1}, lamina.UnsupportedError, "vocab_only"),
    ({"n_ctx": 64, "context": 64}, TypeError, "'context' is given twice, as 'context' and as 'n_ctx'"),
    ({"contxt": 64}, TypeError, "'contxt'; did you mean 'context'"),
    ({"qqqqq": 64}, TypeError, "there is no option 'qqqqq'$"),
    ({"n_ctx": "long"}, lamina.InvalidRequestError, "context takes a whole number"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=str)
def test_what_is_not_here_is_named(options, error, message):
    for call in (lamina.LLM, lamina.plan):
        with pytest.raises(error, match=message):
            call(None, **{"progress": False, **options} if call is lamina.LLM else options)


def test_a_path_is_not_given_twice():
    with pytest.raises(TypeError, match="'path' is given twice"):
        lamina.LLM("a", model_path="b")


def test_a_model_loads_by_their_names():
    path = lamina.builtin.path()
    with lamina.LLM(model_path=path, n_ctx=64, n_gpu_layers=0, n_threads=1, use_mmap=True, verbose=False) as llm:
        assert llm.info.context == 64
        ours = llm.generate("Once", max_tokens=3, temperature=0).text
        params = lamina.SamplingParams(max_tokens=3, temperature=0, repetition_penalty=1.0, best_of=1, detokenize=True)
        assert llm.generate("Once", sampling_params=params).text == ours
        with pytest.raises(lamina.UnsupportedError, match="prompt_logprobs=2.*echo=True"):
            llm.generate("Once", prompt_logprobs=2)
    with lamina.LLM(model=path, max_model_len=32, kv_cache_dtype="auto", enforce_eager=True, progress=False) as llm:
        assert llm.info.context == 32
