//! The engine's view of a model: forward passes over batches, without a type parameter.

use crate::{
    batch::Batch, error::Result, limits::Limits, plan::Plan, stream_counts::StreamCounts, watch::Watch,
};

/// A submitted step. Each is waited for once, before the next one is submitted.
#[must_use = "a step's results are there after `Step::wait`"]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ticket(pub(crate) u64);

/// Runs forward passes over batches. The engine knows no more of a model than this.
pub trait Step: Send {
    /// Begins the step of `batch`: copies first, then the operators. A batch without rows makes its copies only.
    ///
    /// May return while a device still computes; on a CPU the work is done when it returns.
    ///
    /// # Errors
    /// When the backend fails, or a tap asks for rows that its mark does not have.
    fn submit(&mut self, batch: &Batch) -> Result<Ticket>;

    /// [`Step::submit`], which tells `watch` of each operator. A device is waited for behind each one, and no recording is
    /// replayed: what is timed is that, and not the step that runs without it. Machines that cannot tell operators apart
    /// tell nothing.
    ///
    /// # Errors
    /// As for [`Step::submit`].
    fn submit_watched(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<Ticket> {
        let _ = watch;
        self.submit(batch)
    }

    /// The results of a submitted step, which stay where they are until they are asked for.
    ///
    /// # Errors
    /// When the backend fails.
    fn wait(&mut self, ticket: Ticket) -> Result<&dyn Rows>;

    /// [`Step::submit`] and [`Step::wait`] in one.
    ///
    /// # Errors
    /// Those of both.
    fn run(&mut self, batch: &Batch) -> Result<&dyn Rows> {
        let ticket = self.submit(batch)?;
        self.wait(ticket)
    }

    /// A page of every layer of a group as bytes, which a machine of the same plan, types and backend can import.
    ///
    /// # Errors
    /// When the backend fails.
    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>>;

    /// Puts back what [`Step::export_page`] gave, into any page of the group.
    ///
    /// # Errors
    /// When the bytes are not those of a page, or the backend fails.
    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()>;

    /// A recurrent state of every layer as bytes.
    ///
    /// # Errors
    /// When the backend fails.
    fn export_state(&self, state: u32) -> Result<Vec<u8>>;

    /// Puts back what [`Step::export_state`] gave, into any state.
    ///
    /// # Errors
    /// When the bytes are not those of a state, or the backend fails.
    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()>;

    /// Runs `task` for 0 up to `tasks` on the backend's host threads: sampling, detokenizing, masks.
    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));

    /// What was streamed since the machine was built.
    fn streamed(&self) -> StreamCounts {
        StreamCounts::default()
    }

    /// True where a batch may say which cells are kept ([`KeptCells`](crate::KeptCells)).
    fn selects_cells(&self) -> bool;

    /// True where [`Step::submit`] returns when the step is computed: what shall go on beside it has to come before.
    fn eager(&self) -> bool;

    /// The plan that is run.
    fn plan(&self) -> &Plan;

    /// What the machine was built for.
    fn limits(&self) -> &Limits;
}

/// The results of a step. Several threads may ask at once.
pub trait Rows: Sync {
    /// Copies logits into `out`: those of the row `i` of [`Batch::logits`].
    ///
    /// # Errors
    /// When the backend fails.
    fn logits(&self, i: usize, out: &mut Vec<f32>) -> Result<()>;

    /// The `k` largest logits of the row `i` of [`Batch::logits`] with their tokens: larger ones first, of equal ones
    /// the lower token. NaN counts as the largest, so that it is seen.
    ///
    /// # Errors
    /// When the backend fails.
    fn top_k(&self, i: usize, k: usize) -> Result<Vec<(u32, f32)>>;

    /// The first of [`Rows::top_k`]; token 0 and NaN for a vocabulary of nothing.
    ///
    /// # Errors
    /// When the backend fails.
    fn argmax(&self, i: usize) -> Result<(u32, f32)> {
        Ok(self.top_k(i, 1)?.first().copied().unwrap_or((0, f32::NAN)))
    }

    /// Copies the row `i` of [`Batch::selected`], after the final norm, into `out`.
    ///
    /// # Errors
    /// When the backend fails.
    fn normed(&self, i: usize, out: &mut Vec<f32>) -> Result<()>;

    /// Rows of the tap `i` of [`Batch::taps`], `[rows x hidden]`.
    fn tap(&self, i: usize) -> &[f32];

    /// As [`Step::spread`], while results are looked at.
    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}
