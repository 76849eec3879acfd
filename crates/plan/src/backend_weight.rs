//! Weights in the forms of their backends.

use crate::error::{BackendError, Result};
use std::any::Any;

/// A weight in the form of the backend that made it, which alone can look inside: above the backends all weights are alike.
pub struct BackendWeight(Box<dyn Any + Send + Sync>);

impl BackendWeight {
    /// A weight in a form of the backend's own.
    pub fn new<W: Send + Sync + 'static>(weight: W) -> BackendWeight {
        BackendWeight(Box::new(weight))
    }

    /// The weight in its form; none where a backend with another form made it.
    pub fn get<W: 'static>(&self) -> Option<&W> {
        self.0.downcast_ref()
    }

    /// Weights in the form of `backend`, for its machine.
    ///
    /// # Errors
    /// When a backend with another form made one of them.
    pub fn own<W: 'static>(weights: Vec<BackendWeight>, backend: &'static str) -> Result<Vec<W>> {
        let foreign =
            |_| BackendError::Unsupported { backend, what: "weights of another backend".to_owned() };
        let one = |weight: BackendWeight| weight.0.downcast().map(|w| *w).map_err(foreign);
        weights.into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_made_a_weight_gets_it_back_and_nobody_else() {
        let made = || vec![BackendWeight::new(vec![1.0f32]), BackendWeight::new(vec![2.0f32])];
        assert_eq!(made()[1].get::<Vec<f32>>(), Some(&vec![2.0]));
        assert_eq!(made()[0].get::<Vec<u8>>(), None);
        assert_eq!(BackendWeight::own::<Vec<f32>>(made(), "toy").expect("its own"), [[1.0], [2.0]]);
        let mixed = made().into_iter().chain([BackendWeight::new(7u8)]).collect();
        let refused = BackendWeight::own::<Vec<f32>>(mixed, "toy").expect_err("one of another form");
        assert_eq!(refused.to_string(), "toy cannot run weights of another backend");
    }
}
