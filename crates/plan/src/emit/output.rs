//! The final norm, and what comes of its rows.

use super::Emitter;
use crate::{
    op::*,
    slot::{RowKind, Slot},
};
use lamina_arch::spec::{ModelOutput, ModelSpec};

impl Emitter<'_> {
    /// Emits the final norm and the head; returns the slots of normed rows and of logits.
    pub(super) fn head(&mut self, spec: &ModelSpec, x: Slot) -> (Slot, Slot) {
        let mut x = if self.rows == RowKind::All { self.select(x, RowKind::Selected, "selected") } else { x };
        if let Some(norm) = spec.final_norm {
            let norm = self.norm("output_norm".into(), norm, spec.hidden);
            self.push(Normalize { x, norm, out: x });
        }
        self.mark(x);
        let normed = x;
        x = self.select(x, RowKind::Logits, "wanted");
        let logits = match spec.output {
            ModelOutput::Tokens => self.token_logits(spec, x),
            ModelOutput::Rows => self.slot("logits", 0),
            ModelOutput::Classes { labels, dense } => self.classify(x, labels, dense),
        };
        (normed, logits)
    }

    /// Scores of `labels` classes.
    fn classify(&mut self, mut x: Slot, labels: usize, dense: bool) -> Slot {
        let hidden = self.spec.hidden;
        if dense {
            let out = self.slot("pooled", hidden);
            let part = self.part("cls".into(), hidden, out);
            self.push(Linear { x, part });
            // A soft limit of 1 is the hyperbolic tangent.
            self.push(Apply { x: out, map: Map::Softcap(1.0) });
            x = out;
        }
        let logits = self.slot("logits", labels);
        let part = self.part("cls.output".into(), hidden, logits);
        self.push(Linear { x, part });
        logits
    }

    /// Logits of the next token.
    pub(super) fn token_logits(&mut self, spec: &ModelSpec, mut x: Slot) -> Slot {
        let width = spec.embed.width.unwrap_or(spec.hidden);
        if width != spec.hidden {
            let out = self.slot("embedding", width);
            let part = self.part("project_out".into(), spec.hidden, out);
            self.push(Linear { x, part });
            x = out;
        }
        let logits = self.slot("logits", spec.vocab);
        let name = if spec.head.tied { "token_embd" } else { "output" };
        let weight = self.matrix(name.into(), spec.vocab, width);
        let bias = self.optional("output.bias".into(), spec.vocab);
        self.push(Linear { x, part: Part { weight, bias, out: logits, columns: ColumnRange::All } });
        self.scale_logits(spec, logits);
        logits
    }

    /// The model's factor and soft limit.
    pub(super) fn scale_logits(&mut self, spec: &ModelSpec, logits: Slot) {
        if spec.head.scale != 1.0 {
            self.push(Apply { x: logits, map: Map::Scale(spec.head.scale) });
        }
        if let Some(cap) = spec.head.softcap {
            self.push(Apply { x: logits, map: Map::Softcap(cap) });
        }
    }
}
