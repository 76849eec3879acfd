//! The exceptions of the mixes: which matrices are worth more bits than the rest, as llama.cpp's quantizer has it. Files
//! of one name have the same types whoever made them.
//!
//! One table, read from the top: the first line of a mix and part whose conditions hold gives the type.

use super::Mix;
use crate::draft::{Draft, Planned};
use lamina_base::DType::{self, *};

/// What a matrix is for, in the coarse terms of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatrixPart {
    Output,
    Embedding,
    /// Values, also where they share a matrix with others.
    Values,
    Keys,
    Queries,
    AttnOutput,
    Up,
    Gate,
    Down,
    Other,
}

impl MatrixPart {
    pub fn of(name: &str) -> MatrixPart {
        const NAMED: &[(&str, MatrixPart)] = &[
            ("attn_qkv.weight", MatrixPart::Values),
            ("attn_kv_b.weight", MatrixPart::Values),
            ("attn_v.weight", MatrixPart::Values),
            ("attn_k.weight", MatrixPart::Keys),
            ("attn_q.weight", MatrixPart::Queries),
            ("attn_output.weight", MatrixPart::AttnOutput),
            ("ffn_up", MatrixPart::Up),
            ("ffn_gate", MatrixPart::Gate),
            ("ffn_down", MatrixPart::Down),
        ];
        match name {
            "output.weight" => MatrixPart::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => MatrixPart::Embedding,
            _ => NAMED.iter().find(|(part, _)| name.contains(part)).map_or(MatrixPart::Other, |n| n.1),
        }
    }
}

/// When a line holds.
#[derive(Clone, Copy, Debug)]
enum When {
    /// One of the first tensors of its part.
    First(usize),
    /// In the first `1/n` of the layers.
    FirstPart(usize),
    /// Neither in the first eighth nor in the last.
    Middle,
    /// In the first or last eighth, or every third between.
    MoreBits,
    /// At least four queries for each key.
    Shared,
    /// Eight experts (Mixtral).
    Eight,
    /// Four experts or more.
    FourUp,
    Falcon,
    NotFalcon,
    Imatrix,
    NoImatrix,
}
use When::*;

struct RuleLine {
    mixes: &'static [&'static str],
    part: MatrixPart,
    when: &'static [When],
    dtype: DType,
}

const fn line(
    mixes: &'static [&'static str],
    part: MatrixPart,
    when: &'static [When],
    dtype: DType,
) -> RuleLine {
    RuleLine { mixes, part, when, dtype }
}

/// The mixes of two bits and less, which have rules of their own.
const TINY: &[&str] = &["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M"];
const TINY_IQ2: &[&str] = &["IQ2_S", "IQ2_M"];
const TINY_IQ1: &[&str] = &["IQ1_S", "IQ1_M"];
const IQ4: &[&str] = &["IQ4_NL", "IQ4_XS"];
/// Those whose attention output gets five bits in a model of eight experts.
const OUTPUT_OF_EIGHT: &[&str] = &[
    "Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS",
];

#[rustfmt::skip]
const LINES: &[RuleLine] = &[
    line(&["IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"], MatrixPart::Embedding, &[], Q2_K),
    line(&["IQ2_S", "IQ2_M", "IQ3_XXS"], MatrixPart::Embedding, &[], IQ3_S),
    line(&["TQ1_0", "TQ2_0"], MatrixPart::Embedding, &[], Q4_K),

    line(TINY, MatrixPart::Values, &[Shared], Q4_K),
    line(TINY, MatrixPart::Values, &[FourUp], Q4_K),
    line(TINY_IQ2, MatrixPart::Values, &[], IQ3_S),
    line(TINY, MatrixPart::Values, &[], Q2_K),
    line(TINY, MatrixPart::Keys, &[Eight], Q4_K),
    line(TINY_IQ2, MatrixPart::Down, &[FirstPart(8)], IQ3_S),
    line(TINY, MatrixPart::Down, &[FirstPart(8)], Q2_K),
    line(TINY, MatrixPart::AttnOutput, &[Eight], Q5_K),
    line(TINY_IQ1, MatrixPart::AttnOutput, &[], IQ2_XXS),
    line(TINY_IQ2, MatrixPart::AttnOutput, &[], IQ3_S),

    line(&["Q2_K"], MatrixPart::Values, &[Shared], Q4_K),
    line(&["Q2_K"], MatrixPart::Values, &[], Q3_K),
    line(&["Q2_K_S"], MatrixPart::Values, &[Shared], Q4_K),
    line(&["IQ3_XXS"], MatrixPart::Values, &[Shared], Q4_K),
    line(&["IQ3_XXS"], MatrixPart::Values, &[NoImatrix], IQ3_S),
    line(&["IQ3_XS", "IQ3_S"], MatrixPart::Values, &[Shared], Q4_K),
    line(&["IQ3_M"], MatrixPart::Values, &[], Q4_K),
    line(&["Q3_K_M"], MatrixPart::Values, &[First(2)], Q5_K),
    line(&["Q3_K_M"], MatrixPart::Values, &[], Q4_K),
    line(&["Q3_K_L"], MatrixPart::Values, &[], Q5_K),
    line(IQ4, MatrixPart::Values, &[Shared], Q5_K),
    line(&["Q4_K_M", "Q5_K_M"], MatrixPart::Values, &[MoreBits], Q6_K),
    line(&["Q4_K_S"], MatrixPart::Values, &[First(4)], Q5_K),

    line(&["IQ3_XS"], MatrixPart::Keys, &[], IQ3_XXS),
    line(&["IQ3_XXS"], MatrixPart::Keys, &[], IQ2_S),
    line(&["IQ3_XS"], MatrixPart::Queries, &[], IQ3_XXS),
    line(&["IQ3_XXS"], MatrixPart::Queries, &[], IQ2_S),

    line(&["Q2_K"], MatrixPart::Down, &[], Q3_K),
    line(&["Q2_K_S"], MatrixPart::Down, &[FirstPart(8)], Q4_K),
    line(&["IQ3_XXS"], MatrixPart::Down, &[NoImatrix, FirstPart(8)], Q4_K),
    line(&["IQ3_XXS"], MatrixPart::Down, &[NoImatrix], Q3_K),
    line(&["Q3_K_M"], MatrixPart::Down, &[FirstPart(16)], Q5_K),
    line(&["Q3_K_M"], MatrixPart::Down, &[NotFalcon], Q4_K),
    line(&["Q3_K_M"], MatrixPart::Down, &[MoreBits], Q4_K),
    line(&["IQ3_M"], MatrixPart::Down, &[FirstPart(8)], Q4_K),
    line(&["IQ3_M"], MatrixPart::Down, &[Eight, MoreBits], Q4_K),
    line(&["Q3_K_L"], MatrixPart::Down, &[Falcon], Q4_K),
    line(&["Q3_K_L"], MatrixPart::Down, &[], Q5_K),
    line(&["Q4_K_M"], MatrixPart::Down, &[Falcon, FirstPart(16)], Q6_K),
    line(&["Q4_K_M"], MatrixPart::Down, &[Falcon, MoreBits], Q5_K),
    line(&["Q4_K_M"], MatrixPart::Down, &[NotFalcon, MoreBits], Q6_K),
    line(IQ4, MatrixPart::Down, &[NoImatrix, FirstPart(8)], Q5_K),
    line(&["Q5_K_M"], MatrixPart::Down, &[MoreBits], Q6_K),
    line(&["Q4_K_S"], MatrixPart::Down, &[NotFalcon, FirstPart(8)], Q5_K),
    line(&["Q4_0"], MatrixPart::Down, &[Imatrix, FirstPart(8)], Q4_1),
    line(&["Q5_0"], MatrixPart::Down, &[Imatrix, FirstPart(8)], Q5_1),

    line(OUTPUT_OF_EIGHT, MatrixPart::AttnOutput, &[NotFalcon, Eight], Q5_K),
    line(&["Q2_K"], MatrixPart::AttnOutput, &[NotFalcon], Q3_K),
    line(&["IQ3_XXS"], MatrixPart::AttnOutput, &[NotFalcon], IQ3_S),
    line(&["Q3_K_M", "IQ3_M"], MatrixPart::AttnOutput, &[NotFalcon], Q4_K),
    line(&["Q3_K_L"], MatrixPart::AttnOutput, &[NotFalcon], Q5_K),
    line(&["Q3_K_L"], MatrixPart::AttnOutput, &[Falcon], Q4_K),

    line(&["IQ3_XS"], MatrixPart::Gate, &[Middle], IQ3_XXS),
    line(&["IQ3_XS"], MatrixPart::Up, &[Middle], IQ3_XXS),
];

/// What the rules know of the model, and how many tensors of each part have been seen.
pub(super) struct PartCounters {
    layers: usize,
    experts: usize,
    shared: bool,
    tied: bool,
    falcon: bool,
    /// Eight heads of a 70B model share their values, which makes more bits for them cheap.
    seventy: bool,
    imatrix: bool,
    values: usize,
    seen: Vec<(MatrixPart, usize)>,
}

impl PartCounters {
    pub fn new(draft: &Draft, imatrix: bool) -> PartCounters {
        let layers = draft.count("block_count").unwrap_or(0);
        let (heads, kv) = (draft.count("attention.head_count"), draft.count("attention.head_count_kv"));
        let (heads, kv) = (heads.unwrap_or(0), kv.or(heads).unwrap_or(0));
        let named = |part| draft.tensors.iter().filter(|t| MatrixPart::of(&t.name) == part).count();
        PartCounters {
            layers,
            experts: draft.count("expert_count").unwrap_or(0),
            shared: kv > 0 && heads / kv >= 4,
            tied: named(MatrixPart::Output) == 0,
            falcon: draft.architecture == "falcon",
            seventy: match draft.architecture.as_str() {
                "llama" => layers == 80 && heads != kv,
                "qwen2" | "olmo" | "deci" => layers == 80,
                _ => false,
            },
            imatrix,
            values: named(MatrixPart::Values),
            seen: vec![],
        }
    }

    /// The type of the next tensor.
    pub fn choose(&mut self, mix: &Mix, tensor: &Planned, part: MatrixPart) -> DType {
        if part == MatrixPart::Output || (part == MatrixPart::Embedding && self.tied) {
            return self.output(mix, tensor);
        }
        if mix.name == "MXFP4_MOE" {
            return if tensor.shape.len() > 2 && tensor.shape[0] > 1 { MXFP4 } else { Q8_0 };
        }
        let place = self.place(mix, tensor, part);
        let lines = LINES.iter().filter(|l| l.part == part && l.mixes.contains(&mix.name));
        let line = lines.into_iter().find(|l| l.when.iter().all(|w| self.holds(*w, place)));
        let dtype = line.map_or(mix.dtype, |l| l.dtype);
        self.count(part);
        if TINY.contains(&mix.name) {
            return dtype;
        }
        match (part, dtype) {
            (MatrixPart::Values | MatrixPart::Keys, _) if self.experts == 8 => Q8_0,
            (MatrixPart::Values, Q3_K | Q4_K) if self.seventy => Q5_K,
            _ => dtype,
        }
    }

    /// The output matrix, and the embedding that serves as one.
    fn output(&self, mix: &Mix, tensor: &Planned) -> DType {
        match mix.name {
            "MXFP4_MOE" => Q8_0,
            _ if self.falcon || !tensor.cols().is_multiple_of(mix.dtype.block_len()) => Q8_0,
            "IQ2_XXS" | "IQ2_XS" | "IQ3_XXS" | "IQ1_S" | "IQ2_S" | "IQ2_M" | "IQ1_M" => Q5_K,
            "Q8_0" => Q8_0,
            _ => Q6_K,
        }
    }

    /// Number of the tensor among those of its part, and how many there are. Layers are counted by name in models of
    /// experts, whose tensors are several to a layer.
    fn place(&self, mix: &Mix, tensor: &Planned, part: MatrixPart) -> (usize, usize) {
        let seen = self.seen.iter().find(|s| s.0 == part).map_or(0, |s| s.1);
        if part == MatrixPart::Values {
            return (seen, self.values);
        }
        let by_name = || tensor.name.strip_prefix("blk.")?.split('.').next()?.parse().ok();
        let number =
            if self.experts > 1 && !TINY.contains(&mix.name) { by_name().unwrap_or(seen) } else { seen };
        (number, self.layers)
    }

    fn count(&mut self, part: MatrixPart) {
        match self.seen.iter_mut().find(|s| s.0 == part) {
            Some(seen) => seen.1 += 1,
            None => self.seen.push((part, 1)),
        }
    }

    fn holds(&self, when: When, (i, n): (usize, usize)) -> bool {
        match when {
            First(count) => i < count,
            FirstPart(share) => i < n / share,
            Middle => i >= n / 8 && i < 7 * n / 8,
            MoreBits => i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2,
            Shared => self.shared,
            Eight => self.experts == 8,
            FourUp => self.experts >= 4,
            Falcon => self.falcon,
            NotFalcon => !self.falcon,
            Imatrix => self.imatrix,
            NoImatrix => !self.imatrix,
        }
    }
}
