//! `_lamina.PieceIterator`: one step of an iterator that an exception ends.

use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

/// The base of an iterator whose step is its method `_piece`, with None at the end, and which closes itself when that raises.
///
/// Python runs handlers of signals at the beginning of any function, where no `try` of it is entered yet; the traceback
/// then keeps the function's `self`, and the request would go on as long as somebody looks at the exception. This step has
/// no such beginning.
#[pyclass(frozen, subclass, module = "lamina._lamina")]
pub struct PieceIterator;

#[pymethods]
impl PieceIterator {
    /// Arguments are those of the class that derives from it.
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> PieceIterator {
        PieceIterator
    }

    fn __iter__(this: Py<PieceIterator>) -> Py<PieceIterator> {
        this
    }

    fn __next__(this: &Bound<'_, PieceIterator>) -> PyResult<Option<Py<PyAny>>> {
        let piece = this.call_method0("_piece").inspect_err(|_| {
            if let Err(e) = this.call_method0("close") {
                e.write_unraisable(this.py(), Some(this));
            }
        })?;
        Ok((!piece.is_none()).then(|| piece.unbind()))
    }
}
