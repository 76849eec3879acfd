//! Copies, reads, writes, imports and exports around the operators of a step.

use crate::{machine::Machine, weight::Weight};
use lamina_base::{Bytes, PageBuffer};
use lamina_plan::{
    BackendError, Batch, Queue, Slot, WeightId, backend::Result, batch::Copy, front, op::Experts,
};
use std::ops::Range;

impl Machine {
    /// Numbers of some rows of a slot.
    fn numbers(&self, slot: Slot, rows: &Range<usize>) -> &[f32] {
        let from = self.some_rows(slot, rows);
        // SAFETY: the slot holds these rows, one after the other, and no operator runs.
        unsafe { std::slice::from_raw_parts(from.ptr, from.rows * from.width) }
    }
}

impl Queue for Machine {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        for &copy in &b.copies {
            match copy {
                Copy::Page { group, from, to } => {
                    self.cache.copy_page(group as usize, from as usize, to as usize);
                }
                Copy::State { from, to } => self.cache.copy_state(from.map(|f| f as usize), to as usize),
            }
        }
        Ok(())
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        out.extend_from_slice(self.numbers(slot, &rows));
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let to = self.some_rows(slot, &rows);
        assert_eq!(numbers.len(), to.rows * to.width, "numbers of {rows:?}");
        // SAFETY: the slot holds these rows, and nobody else uses them while the machine is borrowed.
        unsafe { to.ptr.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
        Ok(())
    }

    fn with_rows(&mut self, slot: Slot, rows: Range<usize>, f: &mut dyn FnMut(&mut [f32])) -> Result<()> {
        let at = self.some_rows(slot, &rows);
        // SAFETY: the slot holds these rows, one after the other, and nobody else uses them while the machine is borrowed.
        f(unsafe { std::slice::from_raw_parts_mut(at.ptr, at.rows * at.width) });
        Ok(())
    }

    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        Ok(front(self.numbers(slot, &(row..row + 1)), n))
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        Ok(self.cache.export_page(group, page as usize))
    }

    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()> {
        imported(self.cache.import_page(group, page as usize, bytes), bytes)
    }

    fn export_state(&self, state: u32) -> Result<Vec<u8>> {
        Ok(self.cache.export_state(state as usize))
    }

    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()> {
        imported(self.cache.import_state(state as usize, bytes), bytes)
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        match &mut self.weights[weight.0 as usize] {
            Weight::Matrix(matrix) => matrix.bind(piece, bytes),
            _ => {
                let what = format!("binding weight {}, which is no matrix", weight.0);
                Err(BackendError::Unsupported { backend: "cpu", what })
            }
        }
    }

    fn bind_cache(&mut self, layer: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        self.cache.bind(layer, pages)
    }

    fn route_experts(&mut self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        Ok(Machine::route_experts(self, b, o))
    }

    fn some_experts(&mut self, b: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        Machine::some_experts(self, b, o, which)
    }

    fn sum_experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        Machine::sum_experts(self, b, o);
        Ok(())
    }

    fn expert_rows(&self, o: &Experts, which: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        Machine::expert_rows(self, o, &which, out);
        Ok(())
    }

    fn put_expert_rows(&mut self, o: &Experts, which: Range<usize>, rows: &[f32]) -> Result<()> {
        match Machine::put_expert_rows(self, o, &which, rows) {
            true => Ok(()),
            false => {
                let what = format!("{} numbers for rows of experts {which:?}", rows.len());
                Err(BackendError::Unsupported { backend: "cpu", what })
            }
        }
    }

    fn chosen_experts(&self, b: &Batch, o: &Experts, out: &mut Vec<(u32, f32)>) -> Result<bool> {
        Ok(self.routed(b.rows() * o.routing.top_k, out))
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.pool.run(tasks, |i, _| task(i));
    }
}

/// An error unless the bytes were as many as expected.
fn imported(fits: bool, bytes: &[u8]) -> Result<()> {
    let what = || format!("an import of {} bytes: they are of another plan or cache type", bytes.len());
    if fits { Ok(()) } else { Err(BackendError::Unsupported { backend: "cpu", what: what() }) }
}

#[cfg(test)]
mod tests {
    use crate::{Cpu, machine::Machine};
    use lamina_base::PageBuffer;
    use lamina_plan::{
        Batch, KvLayout, KvType, LayerState, Limits, Ops, Plan, Queue, Reach, RowKind, Select, SeqPlace,
        Sizes, Slot, SlotSpec, bound_stride,
        op::{Op, Store},
    };

    fn store(kv: usize) -> Store {
        Store { k: Slot(0), v: Slot(1), kv }
    }

    /// Two layers of one head, of which the second is bound.
    fn plan() -> Plan {
        let mut kv = KvLayout::default();
        let group = kv.group(Reach::All);
        kv.layers = vec![LayerState::Paged { group, kv_heads: 1, dim: 32 }; 2];
        kv.bound = vec![1];
        let slot = |name| SlotSpec { name, width: 32, rows: RowKind::All };
        Plan {
            ops: [0, 1].map(|kv| Op::Store(store(kv))).into(),
            slots: vec![slot("keys"), slot("values")],
            weights: vec![],
            ropes: vec![],
            kv,
            normed: Slot(0),
            logits: Slot(0),
            marks: vec![],
            hidden: 32,
            tokens: 1,
            vocab: 32,
        }
    }

    #[test]
    fn a_bound_layer_is_where_it_was_bound_and_else_an_error() {
        let limits = Limits {
            rows: 4,
            selected: 4,
            logits: 4,
            pages: vec![3],
            states: 0,
            kv: vec![KvType::F32.into()],
        };
        let cpu = Cpu::new(1).expect("an instruction set");
        let page = cpu.page_bytes(&plan().kv.alone(1), 0, KvType::F32.into());
        let mut machine = Machine::new(cpu, &plan(), vec![], &limits).expect("builds");
        let mut batch = Batch::default();
        let place = SeqPlace { pages: vec![vec![2]], ..SeqPlace::default() };
        batch.push(&[0; 4], 0, place, Select::Last);
        machine.begin(&batch).expect("begins");
        machine.store(&batch, &store(0)).expect("has memory of its own");
        let error = machine.store(&batch, &store(1)).expect_err("is not bound").to_string();
        assert!(error.contains("layer 1 of the cache, which is not bound"), "{error}");
        // All pages have to fit, and layers with memory are not bound.
        assert!(machine.bind_cache(1, Some(PageBuffer::new(2 * bound_stride(page)))).is_err());
        assert!(machine.bind_cache(0, Some(PageBuffer::new(1 << 20))).is_err());
        let pages = PageBuffer::new(3 * bound_stride(page));
        assert!(machine.bind_cache(1, Some(pages)).expect("binds").is_none());
        [Slot(0), Slot(1)]
            .into_iter()
            .for_each(|slot| machine.write(slot, 0..4, &[1.5; 128]).expect("writes"));
        machine.store(&batch, &store(1)).expect("is bound");
        let filled = machine.bind_cache(1, None).expect("unbinds").expect("the memory");
        let inside: Vec<bool> =
            filled.bytes().chunks(bound_stride(page)).map(|page| page.iter().any(|b| *b != 0)).collect();
        assert_eq!(inside, [false, false, true]);
        assert!(machine.store(&batch, &store(1)).is_err(), "no longer");
        // What is exported is the layer with memory of its own.
        assert_eq!(machine.export_page(0, 2).expect("exports").len(), page);
    }
}
