//! A machine without a model: the most likely token after `t` is `t + 1`.

use lamina_arch::spec::{Embed, Head, ModelOutput, ModelSpec};
use lamina_plan::{
    BackendError, Batch, Input, KvLayout, KvType, LayerState, Limits, Plan, Reach, Rows, Step, Tap, Ticket,
    emit, front,
};
use std::sync::{Arc, Condvar, Mutex};

/// Tokens that it knows.
pub const VOCAB: usize = 97;
/// Numbers of a hidden row.
pub const HIDDEN: usize = 8;

/// What goes wrong at a token.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Its row of logits is NaN.
    NotANumber,
    /// The step fails.
    Step(fn() -> BackendError),
    /// The step panics.
    Panic,
}

/// Holds steps back until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    closed: bool,
    /// A step waits.
    waits: bool,
}

impl Gate {
    pub fn closed() -> Gate {
        let gate = Gate::default();
        gate.0.0.lock().expect("lock").closed = true;
        gate
    }

    pub fn open(&self) {
        self.0.0.lock().expect("lock").closed = false;
        self.0.1.notify_all();
    }

    /// Waits until a step waits.
    pub fn wait_for_step(&self) {
        let state = self.0.0.lock().expect("lock");
        drop(self.0.1.wait_while(state, |s| !s.waits).expect("lock"));
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().expect("lock");
        state.waits = true;
        self.0.1.notify_all();
        drop(self.0.1.wait_while(state, |s| s.closed).expect("lock"));
    }
}

pub struct Scripted {
    pub plan: Plan,
    pub limits: Limits,
    /// At which token what goes wrong.
    pub fault: Option<(u32, Fault)>,
    pub gate: Gate,
    /// Before a step begins, and so before what is done beside it.
    pub entry: Gate,
    /// Logits of the last step, and its taps.
    pub rows: Vec<Vec<f32>>,
    pub taps: Vec<Vec<f32>>,
}

impl Scripted {
    pub fn new() -> Scripted {
        let spec = ModelSpec {
            hidden: HIDDEN,
            vocab: VOCAB,
            context: 256,
            embed: Embed { scale: 1.0, positions: None, segments: 0, norm: None, width: None },
            layers: vec![],
            final_norm: None,
            head: Head { tied: false, scale: 1.0, softcap: None },
            output: ModelOutput::Tokens,
            heads: vec![],
        };
        let mut kv = KvLayout::default();
        let group = kv.group(Reach::All);
        kv.layers.push(LayerState::Paged { group, kv_heads: 1, dim: 8 });
        let plan = Plan { kv, ..emit(&spec, &|_| false) };
        let limits = Limits {
            rows: 64,
            selected: 32,
            logits: 32,
            pages: vec![32],
            states: 0,
            kv: vec![KvType::F32.into()],
        };
        Scripted {
            plan,
            limits,
            fault: None,
            gate: Gate::default(),
            entry: Gate::default(),
            rows: vec![],
            taps: vec![],
        }
    }

    fn row(&self, token: u32) -> Result<Vec<f32>, BackendError> {
        let mut row = vec![0.0; VOCAB];
        row[(token as usize + 1) % VOCAB] = 9.0;
        match self.fault {
            Some((at, fault)) if at == token => match fault {
                Fault::NotANumber => row[3] = f32::NAN,
                Fault::Step(error) => return Err(error()),
                Fault::Panic => panic!("token {token} does it"),
            },
            _ => {}
        }
        Ok(row)
    }
}

fn number(input: &Input) -> f32 {
    let Input::Token(token) = input else { panic!("only tokens are asked for") };
    *token as f32
}

impl Step for Scripted {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket, BackendError> {
        self.entry.pass();
        // Hidden rows are their tokens.
        let tokens = |t: &Tap| batch.inputs[t.rows.start as usize..t.rows.end as usize].iter().map(number);
        self.taps =
            batch.taps.iter().map(|t| tokens(t).flat_map(|token| [token; HIDDEN]).collect()).collect();
        self.rows.clear();
        for &i in &batch.logits {
            let input = batch.inputs[batch.selected[i as usize] as usize];
            let Input::Token(token) = input else { panic!("only tokens are asked for") };
            self.rows.push(self.row(token)?);
        }
        Ok(Ticket::default())
    }

    fn wait(&mut self, _: Ticket) -> Result<&dyn Rows, BackendError> {
        self.gate.pass();
        Ok(self)
    }

    fn export_page(&self, _: usize, _: u32) -> Result<Vec<u8>, BackendError> {
        unreachable!("not asked for")
    }

    fn import_page(&mut self, _: usize, _: u32, _: &[u8]) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn export_state(&self, _: u32) -> Result<Vec<u8>, BackendError> {
        unreachable!("not asked for")
    }

    fn import_state(&mut self, _: u32, _: &[u8]) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }

    fn selects_cells(&self) -> bool {
        false
    }

    fn eager(&self) -> bool {
        false
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl Rows for Scripted {
    fn logits(&self, i: usize, out: &mut Vec<f32>) -> Result<(), BackendError> {
        out.clone_from(&self.rows[i]);
        Ok(())
    }

    fn top_k(&self, i: usize, k: usize) -> Result<Vec<(u32, f32)>, BackendError> {
        Ok(front(&self.rows[i], k))
    }

    fn normed(&self, _: usize, _: &mut Vec<f32>) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn tap(&self, i: usize) -> &[f32] {
        &self.taps[i]
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}
