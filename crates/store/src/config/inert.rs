//! Settings that cannot change what a model computes when it is run: training, bookkeeping, the tokenizer's affairs and
//! habits of transformers' own code. [`Config::unread`](super::Config::unread) does not report them.

/// Last parts of keys, sorted.
const NAMES: &[&str] = &[
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_pdrop",
    "auto_map",
    "aux_loss_alpha",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "dropout",
    "dtype",
    "emb_pdrop",
    "embd_pdrop",
    "embedding_dropout",
    "eod_token_id",
    "eos_token_id",
    "ep_size",
    "finetuning_task",
    "hidden_dropout",
    "id2label",
    "init_device",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "layerdrop",
    "max_length",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "rescale_prenorm_residual",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "seq_aux",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "time_step_floor",
    "time_step_max",
    "time_step_min",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
];

/// True when the setting with this last part of its path is inert.
pub(super) fn is_inert(last: &str) -> bool {
    NAMES.binary_search(&last).is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(super::NAMES.is_sorted());
    }
}
