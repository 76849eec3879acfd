//! A plan whose large products are cut into parts: each part has some rows of the weights, and fills some columns.

use crate::{
    op::{ColumnRange, Glu, Linear, LinearAdd, Op, Operands, Part, Project},
    plan::{Mark, Plan, WeightKind, WeightSpec},
    slot::WeightId,
};
use std::{collections::HashMap, ops::Range};

/// Rows of one of an operator's matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRows {
    /// Which of the operator's matrices.
    pub part: usize,
    /// Rows of it.
    pub rows: Range<usize>,
}

/// A plan after [`cut`].
#[derive(Clone, Debug)]
pub struct CutPlan {
    /// Operators in parts.
    pub plan: Plan,
    /// Of each weight of the plan, which weight it was before and which rows of it.
    pub sources: Vec<(WeightId, Range<usize>)>,
}

/// The matrices of an operator that can be cut, in the order of its parts; none for other operators. A matrix that several
/// operators multiply with stays whole, since it would be cut differently.
pub fn cuttable(plan: &Plan) -> Vec<Vec<WeightId>> {
    let mut uses: HashMap<WeightId, usize> = HashMap::new();
    for weight in plan.ops.iter().flat_map(Operands::weights) {
        *uses.entry(weight).or_default() += 1;
    }
    let whole = |w: &WeightId| uses[w] == 1 && matches!(plan.weight(*w).kind, WeightKind::Matrix { .. });
    let one = |op: &Op| matrices(op).filter(|all| all.iter().all(whole)).unwrap_or_default();
    plan.ops.iter().map(one).collect()
}

fn matrices(op: &Op) -> Option<Vec<WeightId>> {
    let of_parts = |parts: &[Part]| parts.iter().map(|p| p.weight).collect();
    match op {
        Op::Linear(o) => Some(vec![o.part.weight]),
        Op::LinearAdd(o) => Some(vec![o.weight]),
        Op::Project(o) => Some(of_parts(&o.parts)),
        Op::Glu(o) => Some(of_parts(&o.project.parts)),
        _ => None,
    }
}

/// The plan in which operator `i` is replaced by one for each list of `cuts[i]`, in order; an empty entry keeps it. A norm
/// stays in each part, so that all run the code that the whole one runs, and a row's bits are the same.
///
/// # Panics
/// When the parts of an operator do not hold each of its rows once, an operator is none of [`cuttable`], or the two halves
/// of a gated one are cut differently.
pub fn cut(plan: Plan, cuts: &[Vec<Vec<PartRows>>]) -> CutPlan {
    for (op, parts) in plan.ops.iter().zip(cuts).filter(|(_, parts)| !parts.is_empty()) {
        check(&plan, op, parts);
    }
    in_parts(plan, cuts)
}

/// The plan of a machine that has some rows of its matrices: operator `i` multiplies with `own[i]` of them and fills these
/// columns alone; where that is empty, it stays whole.
///
/// # Panics
/// As [`cut`] does, but for rows that are left out.
pub(crate) fn keep_rows(plan: Plan, own: &[Vec<PartRows>]) -> CutPlan {
    let part = |rows: &Vec<PartRows>| if rows.is_empty() { vec![] } else { vec![rows.clone()] };
    in_parts(plan, &own.iter().map(part).collect::<Vec<_>>())
}

fn in_parts(plan: Plan, cuts: &[Vec<Vec<PartRows>>]) -> CutPlan {
    let sources = plan.weights.iter().enumerate();
    let mut c = PlanCutter {
        sources: sources.map(|(i, w)| (WeightId(i as u32), 0..w.kind.shape().0)).collect(),
        weights: plan.weights.clone(),
        whole: &plan.weights,
        used: vec![false; plan.weights.len()],
        ops: vec![],
    };
    let mut starts = vec![];
    for (op, parts) in plan.ops.iter().zip(cuts) {
        starts.push(c.ops.len());
        if parts.is_empty() {
            c.ops.push(op.clone());
        } else {
            parts.iter().for_each(|rows| c.part(op, rows));
        }
    }
    starts.push(c.ops.len());
    let marks = plan.marks.iter().map(|m| Mark { ops: starts[m.ops], ..*m }).collect();
    let PlanCutter { sources, weights, ops, .. } = c;
    CutPlan { plan: Plan { ops, weights, marks, ..plan }, sources }
}

/// The name of some rows of a matrix.
pub(crate) fn part_name(name: &str, rows: &Range<usize>) -> String {
    format!("{name}[{}..{}]", rows.start, rows.end)
}

/// The name of the matrix that a weight of a cut plan has rows of: its own where it is whole.
pub fn whole_name(name: &str) -> &str {
    name.strip_suffix(']').and_then(|part| part.rsplit_once('[')).map_or(name, |(whole, _)| whole)
}

/// Every row of every matrix once.
fn check(plan: &Plan, op: &Op, parts: &[Vec<PartRows>]) {
    let matrices = matrices(op).expect("a product");
    for (part, &weight) in matrices.iter().enumerate() {
        let mut next = 0;
        for piece in parts.iter().flatten().filter(|p| p.part == part) {
            assert_eq!(piece.rows.start, next, "rows in order of part {part}");
            next = piece.rows.end;
        }
        assert_eq!(next, plan.weight(weight).kind.shape().0, "all rows of part {part}");
    }
}

/// The plan that [`cut`] builds.
struct PlanCutter<'a> {
    sources: Vec<(WeightId, Range<usize>)>,
    weights: Vec<WeightSpec>,
    /// Weights before the cut.
    whole: &'a [WeightSpec],
    /// Weights whose id is that of their first part by now.
    used: Vec<bool>,
    ops: Vec<Op>,
}

impl PlanCutter<'_> {
    fn part(&mut self, op: &Op, rows: &[PartRows]) {
        let one = |c: &mut Self, part: &Part| {
            let [piece] = rows else { panic!("one matrix, but {} pieces", rows.len()) };
            c.rows_of(part, &piece.rows)
        };
        let new: Op = match op {
            Op::Linear(o) => Linear { part: one(self, &o.part), ..*o }.into(),
            Op::LinearAdd(o) => {
                let part = Part { weight: o.weight, bias: o.bias, out: o.into, columns: o.columns };
                let Part { weight, columns, .. } = one(self, &part);
                LinearAdd { weight, columns, ..*o }.into()
            }
            Op::Project(o) => self.project(o, rows).into(),
            Op::Glu(o) => {
                let all: Vec<_> = rows.iter().map(|r| r.part).collect();
                let halves: Vec<_> = (0..o.project.parts.len()).collect();
                assert!(all == halves && rows.iter().all(|r| r.rows == rows[0].rows), "halves of {rows:?}");
                Glu { project: self.project(&o.project, rows), act: o.act }.into()
            }
            _ => unreachable!("only products are cut"),
        };
        self.ops.push(new);
    }

    fn project(&mut self, o: &Project, rows: &[PartRows]) -> Project {
        let parts = rows.iter().map(|r| self.rows_of(&o.parts[r.part], &r.rows)).collect();
        Project { parts, ..o.clone() }
    }

    /// The part that has some rows of a whole one.
    fn rows_of(&mut self, part: &Part, rows: &Range<usize>) -> Part {
        let first = part.columns.first() + rows.start;
        let columns = ColumnRange::Some { first, count: rows.len() };
        let whole = &self.whole[part.weight.0 as usize];
        let (all, cols) = whole.kind.shape();
        if rows.len() == all {
            return *part;
        }
        let name = part_name(&whole.name, rows);
        let spec = WeightSpec { name, kind: WeightKind::Matrix { rows: rows.len(), cols } };
        let source = (part.weight, rows.clone());
        // The first part takes the id of the whole weight, which nobody names any more.
        let weight = if std::mem::replace(&mut self.used[part.weight.0 as usize], true) {
            self.weights.push(spec);
            self.sources.push(source);
            WeightId((self.weights.len() - 1) as u32)
        } else {
            self.weights[part.weight.0 as usize] = spec;
            self.sources[part.weight.0 as usize] = source;
            part.weight
        };
        Part { weight, columns, ..*part }
    }
}
