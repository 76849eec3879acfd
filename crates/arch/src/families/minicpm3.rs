//! MiniCPM 3: MiniCPM with latent attention.

use super::minicpm::scaled;
use crate::{
    Family,
    latent::{LATENT, latent},
    llama_like,
    spec::Mixer,
};

pub static FAMILY: Family = Family {
    name: "minicpm3",
    hf: &["MiniCPM3ForCausalLM"],
    build: |ck, family| {
        let mla = latent(ck, family)?;
        scaled(&ck.config, llama_like(ck, family)?.each(|_, l| l.mixer = Mixer::Mla(mla.clone())))
    },
    rules: &[LATENT],
    ..Family::LLAMA_LIKE
};
