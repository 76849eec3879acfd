//! The softmax of a row's query head, by which a score becomes a weight once all cells were seen.

/// What makes weights of the scores of a row's query head.
#[derive(Clone, Copy, Default)]
pub struct RowSoftmax {
    /// Largest score.
    pub top: f32,
    /// Sum of the weights beside it.
    pub sum: f32,
}

impl RowSoftmax {
    /// Adds weights that sum up to `sum` beside a largest score of `top`.
    pub fn add(&mut self, top: f32, sum: f32) {
        if sum > 0.0 {
            let largest = self.top.max(top);
            self.sum = self.sum * (self.top - largest).exp() + sum * (top - largest).exp();
            self.top = largest;
        }
    }
}
