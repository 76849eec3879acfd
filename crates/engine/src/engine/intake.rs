//! Requests are checked and prepared on their callers' threads: stop strings, samplers, names of a prompt's pages. The
//! engine's thread only takes them in.

use crate::{
    clock::Clock,
    error::{EngineError, enough_memory},
    events::{outbox::EventOutlet, output::Event, sink::SharedSink},
    kv::{
        cache_part::CachePart,
        content::{Identity, Namer},
        prompt_pages::PromptPages,
    },
    memory::Memory,
    request::{
        Request,
        beams::BeamRoom,
        compress::{CompressibleLayers, Compressor},
    },
    sequence::Sequence,
};
use lamina_disk::PageStore;
use lamina_plan::{PAGE_LEN, Plan, Step};
use std::{sync::Arc, time::Instant};

/// What requests are checked against and prepared with. Clones share it.
#[derive(Clone)]
pub(crate) struct Intake {
    facts: Arc<IntakeFacts>,
    /// Names of the drafters.
    methods: Arc<[&'static str]>,
    /// Where beginnings are looked up beside memory, and what is kept there of each page.
    store: Option<(Arc<PageStore>, Arc<[CachePart]>)>,
    clock: Clock,
}

struct IntakeFacts {
    plan: Plan,
    identity: Identity,
    /// Longest sequence in tokens, as it was asked for and as the cache holds it.
    context: usize,
    positions: usize,
    /// Names pages; none where computed beginnings are not kept.
    namer: Option<Namer>,
    compressible: CompressibleLayers,
    beam_room: BeamRoom,
}

impl Intake {
    pub fn new(step: &dyn Step, identity: Identity, context: usize, memory: &Memory) -> Intake {
        let (plan, limits) = (step.plan().clone(), step.limits());
        let facts = IntakeFacts {
            plan,
            identity,
            context,
            positions: memory.longest(),
            namer: memory.namer(),
            compressible: CompressibleLayers::new(step),
            beam_room: memory.beam_room(limits.rows.min(limits.selected).min(limits.logits)),
        };
        let facts = Arc::new(facts);
        Intake { facts, methods: Arc::default(), store: None, clock: Instant::now }
    }

    /// For an engine that keeps `parts` of its pages in `store`.
    pub fn reading(self, store: Arc<PageStore>, parts: Vec<CachePart>) -> Intake {
        Intake { store: Some((store, parts.into())), ..self }
    }

    /// For an engine with these drafters.
    pub fn drafting(self, methods: &[&'static str]) -> Intake {
        Intake { methods: methods.into(), ..self }
    }

    /// For an engine with this clock.
    pub fn timed_by(self, clock: Clock) -> Intake {
        Intake { clock, ..self }
    }

    /// What names the pages; none where computed beginnings are not kept.
    pub fn namer(&self) -> Option<Namer> {
        self.facts.namer
    }

    /// The sequence of a request; none where it can never run, and its caller was told.
    pub fn prepare(&self, mut request: Request) -> Option<Sequence> {
        let IntakeFacts { plan, identity, context, positions, namer, compressible, beam_room } = &*self.facts;
        let checked = request.check(plan, *context, *positions);
        let checked = checked
            .and_then(|()| Ok(request.speculate().check(&self.methods)?))
            .and_then(|()| request.fit_beams(*context, beam_room))
            .and_then(|()| enough_memory())
            .and_then(|()| {
                let asked = request.compression();
                asked.map(|(asked, scored)| compressible.compressor(&asked, scored)).transpose()
            })
            .and_then(|compressor| has_room(compressor, request.longest_prompt(*context)));
        let compressor = match checked {
            Ok(compressor) => compressor,
            Err(e) => return refuse(request, e),
        };
        let mut s = Sequence::new(request, plan, &identity.loras, (self.clock)())?;
        s.clock = self.clock;
        s.compressor = compressor.map(Arc::new);
        s.shift_as_told(*context);
        if let Some(namer) = namer {
            let pages = s.sharable() / PAGE_LEN;
            let cells = (0..pages).map(|page| s.cells(page * PAGE_LEN..(page + 1) * PAGE_LEN));
            let mut pages = PromptPages::new(namer.chain(&s.root, cells));
            if let Some((store, parts)) = self.store.as_ref().filter(|_| s.reads_cache()) {
                pages.look_up(store, parts);
            }
            s.prompt_pages = Arc::new(pages);
        }
        Some(s)
    }
}

/// The compressor, where there is memory for what it keeps beside the cache of a prompt of `tokens` tokens.
fn has_room(compressor: Option<Compressor>, tokens: usize) -> Result<Option<Compressor>, EngineError> {
    let bytes = compressor.as_ref().map_or(0, |c| c.bytes(tokens));
    match bytes == 0 || lamina_reserve::affordable(bytes) {
        true => Ok(compressor),
        false => Err(EngineError::OutOfMemory(format!(
            "no memory for {bytes} bytes of attention sums of a prompt of {tokens} tokens: leave compress=h2o out, or send a \
             shorter prompt"
        ))),
    }
}

fn refuse(request: Request, error: EngineError) -> Option<Sequence> {
    EventOutlet::new(SharedSink::new(request.events), request.cancel).send(Event::Failed(error));
    None
}
