//! Routers that run early, for guesses, change no result.

use crate::common::{Model, folders, for_each, prefill, prompts};
use lamina_plan::{
    KvType, lookahead,
    op::{Op, Operands},
};

#[test]
fn routers_that_run_early_change_no_bit() {
    for_each(folders(), |folder| {
        let mut model = Model::open(folder)?;
        let prompts = prompts(folder)?;
        let whole = model.plan.clone();
        let before = prefill(&mut model.runner(KvType::F32)?.0, &prompts)?;
        let (plan, guesses) = lookahead(whole.clone(), &|_| true);
        if plan.ops.len() != whole.ops.len() + 2 * guesses.len() {
            return Err("a guess is a norm and a router".into());
        }
        for guess in &guesses {
            let early = plan.ops.iter().position(|op| op.writes().contains(&guess.next.logits));
            let mixture =
                plan.ops.iter().position(|op| matches!(op, Op::Experts(o) if o.gate == guess.before));
            if early.is_none() || early >= mixture {
                return Err("a guess comes too late".into());
            }
        }
        model.plan = plan;
        if prefill(&mut model.runner(KvType::F32)?.0, &prompts)? != before {
            return Err("other logits".into());
        }
        let (same, none) = lookahead(whole.clone(), &|_| false);
        if same != whole || !none.is_empty() {
            return Err("routers on disk cannot run early".into());
        }
        Ok(format!("{} guesses", guesses.len()))
    });
}
