//! Matrices whose inputs and outputs are cut to bounds, as the small encoders of Gemma 4 have them: operators that do
//! several things at once come apart, and cuts stand around the products.

use super::Emitter;
use crate::{
    op::*,
    slot::{Slot, WeightId},
};
use lamina_arch::vision::ClipBounds;

/// The bounds of a matrix by its name without an ending.
pub(super) type ClipsOf<'a> = &'a dyn Fn(&str) -> Option<ClipBounds>;

impl Emitter<'_> {
    /// Pushes `op`, where a matrix of it has bounds as its parts.
    pub(super) fn push_clipped(&mut self, clips: ClipsOf<'_>, op: Op) {
        match op {
            Op::Project(o) if self.any_clipped(clips, &o.parts) => self.clipped_parts(clips, &o),
            Op::Glu(o) if self.any_clipped(clips, &o.project.parts) => {
                self.clipped_parts(clips, &o.project);
                let Part { out: gate, columns, .. } = o.project.parts[0];
                let up = o.project.parts.get(1).map(|part| part.out);
                self.ops.push(Activate { gate, up, act: o.act, out: gate, columns }.into());
            }
            Op::LinearAdd(LinearAdd { x, weight, bias, temp, scale, into, columns })
                if self.clip_of(clips, weight).is_some() =>
            {
                self.clipped_product(clips, x, Part { weight, bias, out: temp, columns });
                self.ops.push(Add { x: temp, scale, into, columns }.into());
            }
            Op::Linear(Linear { x, part }) => self.clipped_product(clips, x, part),
            op => self.ops.push(op),
        }
    }

    fn clip_of(&self, clips: ClipsOf<'_>, weight: WeightId) -> Option<ClipBounds> {
        let name = &self.weights[weight.0 as usize].name;
        clips(name.strip_suffix(".weight").unwrap_or(name))
    }

    fn any_clipped(&self, clips: ClipsOf<'_>, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.clip_of(clips, part.weight).is_some())
    }

    fn clipped_parts(&mut self, clips: ClipsOf<'_>, o: &Project) {
        let x = match o.norm {
            None => o.x,
            Some(norm) => {
                self.ops.push(Normalize { x: o.x, norm, out: o.temp }.into());
                o.temp
            }
        };
        o.parts.iter().for_each(|part| self.clipped_product(clips, x, *part));
    }

    /// A product, whose input others may read as it is.
    fn clipped_product(&mut self, clips: ClipsOf<'_>, x: Slot, part: Part) {
        let Some(ClipBounds { input, output }) = self.clip_of(clips, part.weight) else {
            return self.ops.push(Linear { x, part }.into());
        };
        let clip = |x, [low, high]: [f32; 2]| Op::from(Apply { x, map: Map::Clip { low, high } });
        let width = self.width(x);
        let own = self.slot("clipped", width);
        let product = Linear { x: own, part }.into();
        self.ops.extend([Copy { x, out: own }.into(), clip(own, input), product, clip(part.out, output)]);
    }
}
