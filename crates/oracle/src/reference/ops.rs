//! The operators: each one fetches its rows and hands them to a plain function.

use super::{
    ReferenceMachine,
    math::{add, dot, sigmoid, silu, softcap},
};
use lamina_plan::{
    Ops, Slot,
    backend::Result,
    batch::{Batch, Input},
    op::*,
};

impl Ops for ReferenceMachine {
    fn embed(&mut self, b: &Batch, o: &Embed) -> Result<()> {
        let (table, width) = (self.weight(o.table), self.width(o.out));
        let row = |&input: &Input| -> Vec<f32> {
            match input {
                Input::Token(t) => table[t as usize * width..][..width].iter().map(|v| v * o.scale).collect(),
                Input::Row(i) => b.numbers[i as usize * width..][..width].to_vec(),
            }
        };
        let out: Vec<f32> = b.inputs.iter().flat_map(row).collect();
        self.set(b, o.out, &out);
        Ok(())
    }

    fn feature(&mut self, b: &Batch, o: &Feature) -> Result<()> {
        self.set(b, o.out, &b.features);
        Ok(())
    }

    fn concat(&mut self, b: &Batch, o: &Concat) -> Result<()> {
        let (first, second) = (self.get(b, o.a), self.get(b, o.b));
        let rows = first.chunks(self.width(o.a)).zip(second.chunks(self.width(o.b)));
        let out = rows.map(|(a, b)| [a, b].concat()).collect::<Vec<_>>().concat();
        self.set(b, o.out, &out);
        Ok(())
    }

    fn positions(&mut self, b: &Batch, o: &Positions) -> Result<()> {
        self.map_rows(b, o.x, o.x, |m, i, x| {
            let at = o.by.of(b, i) * x.len();
            let mut out = x.to_vec();
            add(&mut out, Some(&m.weight(o.table)[at..at + x.len()]));
            out
        });
        Ok(())
    }

    fn normalize(&mut self, b: &Batch, o: &Normalize) -> Result<()> {
        self.map_rows(b, o.x, o.out, |m, _, x| m.norm_pieces(&o.norm, x, 1, false));
        Ok(())
    }

    fn head_norm(&mut self, b: &Batch, o: &HeadNorm) -> Result<()> {
        self.map_rows(b, o.x, o.x, |m, _, x| m.norm_pieces(&o.norm, x, o.heads, o.weight_per_head));
        Ok(())
    }

    fn linear(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        let (part, columns) = (o.part, o.part.columns.range(self.width(o.part.out)));
        let mut out = self.get(b, part.out).to_vec();
        let rows = self.get(b, o.x).chunks_exact(self.width(o.x).max(1));
        for (x, out) in rows.zip(out.chunks_exact_mut(self.width(part.out).max(1))) {
            let (weight, bias) = (self.weight(part.weight), self.maybe(part.bias));
            for (i, row) in columns.clone().zip(weight.chunks_exact(x.len())) {
                out[i] = (dot(row, x) + bias.map_or(0.0, |b| f64::from(b[i]))) as f32;
            }
        }
        self.set(b, part.out, &out);
        Ok(())
    }

    fn add(&mut self, b: &Batch, o: &Add) -> Result<()> {
        let columns = o.columns.range(self.width(o.into));
        let sum = |i: usize, into: f32, x: f32| if columns.contains(&i) { into + o.scale * x } else { into };
        self.map_two(b, o.into, o.x, sum);
        Ok(())
    }

    fn copy(&mut self, b: &Batch, o: &Copy) -> Result<()> {
        self.map_rows(b, o.x, o.out, |_, _, x| x.to_vec());
        Ok(())
    }

    fn activate(&mut self, b: &Batch, o: &Activate) -> Result<()> {
        let up = o.up.map(|up| self.get(b, up));
        let (gate, width) = (self.get(b, o.gate), self.width(o.out));
        let columns = o.columns.range(width);
        let mut out = self.get(b, o.out).to_vec();
        for i in (0..out.len()).filter(|i| columns.contains(&(i % width))) {
            out[i] = o.act.apply(gate[i], up.map(|u| u[i]));
        }
        self.set(b, o.out, &out);
        Ok(())
    }

    fn gate(&mut self, b: &Batch, o: &Gate) -> Result<()> {
        let share = self.width(o.x) / self.width(o.gate);
        let gate = self.get(b, o.gate);
        let x = self.get(b, o.x).iter().enumerate();
        let out: Vec<f32> = x.map(|(i, x)| x * sigmoid(gate[i / share])).collect();
        self.set(b, o.x, &out);
        Ok(())
    }

    fn apply(&mut self, b: &Batch, o: &Apply) -> Result<()> {
        self.map_rows(b, o.x, o.x, |_, i, x| match o.map {
            Map::Scale(s) => x.iter().map(|v| v * s).collect(),
            Map::Softcap(cap) => x.iter().map(|&v| softcap(v, cap)).collect(),
            Map::Clip { low, high } => x.iter().map(|v| v.clamp(low, high)).collect(),
            Map::Temperature(t) => {
                let steps = ((b.positions[i][0] as f32 + t.offset) / t.floor).floor();
                x.iter().map(|v| v * (1.0 + t.scale * steps.ln_1p())).collect()
            }
        });
        Ok(())
    }

    fn rotate(&mut self, b: &Batch, o: &Rotate) -> Result<()> {
        self.map_rows(b, o.x, o.x, |m, i, x| m.rotate_row(b, i, x, o));
        Ok(())
    }

    fn store(&mut self, b: &Batch, o: &Store) -> Result<()> {
        self.store_rows(b, o);
        Ok(())
    }

    fn attention(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        self.map_rows(b, o.q, o.out, |m, i, q| m.attend_row(b, i, q, o));
        self.select_cells(b, o);
        Ok(())
    }

    fn latent_attend(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        self.store_latents(b, o);
        self.map_rows(b, o.q, o.out, |m, i, q| m.latent_row(b, i, q, o));
        Ok(())
    }

    fn experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        self.map_rows(b, o.x, o.out, |m, i, x| {
            let logits = &m.get(b, o.logits)[i * o.routing.experts..][..o.routing.experts];
            m.experts_row(x, logits, o)
        });
        Ok(())
    }

    fn conv(&mut self, b: &Batch, o: &Conv) -> Result<()> {
        self.conv_rows(b, o);
        Ok(())
    }

    fn delta_rule(&mut self, b: &Batch, o: &DeltaRule) -> Result<()> {
        self.delta_rows(b, o);
        Ok(())
    }

    fn scan(&mut self, b: &Batch, o: &Scan) -> Result<()> {
        self.scan_rows(b, o);
        Ok(())
    }

    fn gated_norm(&mut self, b: &Batch, o: &GatedNorm) -> Result<()> {
        let norm = |m: &mut Self| {
            m.map_rows(b, o.x, o.x, |m, _, x| m.norm_pieces(&o.norm, x, o.groups, o.weight_per_group));
        };
        if !o.gate_first {
            norm(self);
        }
        self.map_two(b, o.x, o.gate, |_, x, gate| x * silu(gate));
        if o.gate_first {
            norm(self);
        }
        Ok(())
    }

    fn adapt(&mut self, b: &Batch, o: &Adapt) -> Result<()> {
        self.map_rows(b, o.x, o.x, |m, i, row| {
            let seq = b.seq(b.row_of(m.kind(o.x), i));
            let mut row = row.to_vec();
            for p in o.pieces.iter() {
                let scale = seq.scale(p.lora);
                // Not multiplied by 0: an adapter that is not used shall not matter even where it overflows.
                let scaled = |v: &f32| if scale == 0.0 { 0.0 } else { v * scale };
                row[p.start..p.start + p.len].iter_mut().for_each(|v| *v = scaled(v));
            }
            row
        });
        Ok(())
    }

    fn add_adapted(&mut self, b: &Batch, o: &AddAdapted) -> Result<()> {
        self.map_rows(b, o.into, o.into, |m, i, row| {
            if !b.seq(b.row_of(m.kind(o.into), i)).adapted() {
                return row.to_vec();
            }
            let x = &m.get(b, o.x)[i * row.len()..];
            row.iter().zip(x).map(|(v, x)| v + o.scale * x).collect()
        });
        Ok(())
    }

    fn select(&mut self, b: &Batch, o: &Select) -> Result<()> {
        let (x, width) = (self.get(b, o.x), self.width(o.x));
        let picked = b.picked(self.kind(o.x), self.kind(o.out));
        let rows = picked.iter().flat_map(|&r| &x[r as usize * width..][..width]);
        let out: Vec<f32> = rows.copied().collect();
        self.set(b, o.out, &out);
        Ok(())
    }
}

impl ReferenceMachine {
    /// `x = f(column, x, y)` number by number.
    fn map_two(&mut self, b: &Batch, x: Slot, y: Slot, f: impl Fn(usize, f32, f32) -> f32) {
        let (width, pairs) = (self.width(x).max(1), self.get(b, x).iter().zip(self.get(b, y)));
        let out: Vec<f32> = pairs.enumerate().map(|(i, (&x, &y))| f(i % width, x, y)).collect();
        self.set(b, x, &out);
    }
}
