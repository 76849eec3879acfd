//! Ranks that are met: each has the same model as the leader, before anything is divided.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    identity::content_key,
    options::LoadOptions,
};
use lamina_disk::checksum;
use lamina_plan::{Backend, KvLayout, Plan};
use lamina_ranks::{
    AppKey, RankAbout, RankAnswer, RankError, RankLine, RankOrder, StageFrame, StageModel, join,
};
use std::{
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a rank may serve another leader before it is given up.
const BUSY: Duration = Duration::from_secs(3);

/// A rank that has the same model, before it is told what to do.
pub(crate) struct MetRank {
    pub line: RankLine,
    pub name: String,
    pub about: RankAbout,
}

/// Meets the ranks at these addresses, which have the model that the leader has, described by `own`.
pub(crate) fn meet(addresses: &[&String], options: &LoadOptions, own: &RankAbout) -> Result<Vec<MetRank>> {
    let key = key_for(addresses)?;
    let one = |&address: &&String| {
        let line = join_soon(address, key.as_ref()).map_err(|e| of_rank(address, e))?;
        meet_at(line, address, options, own)
    };
    addresses.iter().map(one).collect()
}

/// Has the rank `name` behind `line` open the leader's model, which `own` describes.
pub(crate) fn meet_at(line: RankLine, name: &str, options: &LoadOptions, own: &RankAbout) -> Result<MetRank> {
    let order = RankOrder::Open(stage_model(options));
    if let Err(e) = line.send_value(StageFrame::Order, &order) {
        // A rank that has left may have said why.
        return Err(answer(&line, name, &|| true).err().unwrap_or_else(|| of_rank(name, e)));
    }
    match answer(&line, name, &|| true)? {
        RankAnswer::Opened(about) => {
            same_model(name, &about, own)?;
            Ok(MetRank { line, name: name.to_owned(), about })
        }
        other => Err(unexpected(name, &other)),
    }
}

/// What the rank `name` answers, waited for as long as `goes_on`.
pub(crate) fn answer(line: &RankLine, name: &str, goes_on: &dyn Fn() -> bool) -> Result<RankAnswer> {
    let mut alive = || match goes_on() {
        true => Ok(()),
        false => Err(RankError::Told("loading was cancelled".into())),
    };
    let (kind, payload) = line.next_while(&mut alive).map_err(|e| of_rank(name, e))?;
    match kind {
        StageFrame::Answer => serde_json::from_slice(&payload).map_err(|e| of_rank(name, e.into())),
        other => Err(unexpected(name, &other)),
    }
}

/// Meets a rank, also one that has yet to see that its last leader is gone: who loads a model again was that one.
pub(crate) fn join_soon(address: &str, key: Option<&AppKey>) -> std::result::Result<RankLine, RankError> {
    let until = Instant::now() + BUSY;
    loop {
        match join(address, key) {
            Err(RankError::Busy(_)) if Instant::now() < until => thread::sleep(BUSY / 20),
            met => return met,
        }
    }
}

/// What a machine and its copy of a model are.
pub(crate) fn about(model: &OpenedModel<'_>, options: &LoadOptions, backend: &dyn Backend) -> RankAbout {
    let about = backend.about();
    RankAbout {
        // Where a cache lies is each machine's own affair.
        plan: {
            let kv = KvLayout { bound: vec![], ..model.plan.kv.clone() };
            checksum(format!("{:?}", Plan { kv, ..model.plan.clone() }).as_bytes())
        },
        files: content_key(model.ck, &model.loras),
        kernels: format!("{} {}", backend.name(), about.kernels),
        device: format!("{}, {}", about.device, about.kernels),
        free: options.placing().memory_of(backend).map(|memory| memory.free),
    }
}

/// What the plan of a model follows from, as ranks read it.
fn stage_model(options: &LoadOptions) -> StageModel {
    let number = |name: &str, n: Option<usize>| n.map(|n| (name.to_owned(), n.to_string()));
    let dtype = options.dtype.map(|dtype| ("dtype".to_owned(), dtype.name().to_owned()));
    let kv = ("kv_dtype".to_owned(), options.kv_dtype.to_string());
    let approximations = options.approximations();
    let approximations = approximations.iter().filter_map(|text| text.split_once(' '));
    let approximations = approximations.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let numbers = [number("context", options.context), number("batch_rows", options.batch_rows)];
    StageModel {
        options: numbers.into_iter().flatten().chain(dtype).chain([kv]).chain(approximations).collect(),
        loras: options.loras.iter().map(|(name, path)| (name.clone(), absolute(path))).collect(),
    }
}

/// A path that means the same wherever a process was started.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses a rank that would compute something else.
fn same_model(name: &str, about: &RankAbout, own: &RankAbout) -> Result<()> {
    let other = |what: &str| {
        Err(Error::InvalidRequest(format!("the rank {name} has {what}: give all machines the same files")))
    };
    match about {
        about if about.files != own.files => other("another model, or other adapters"),
        about if about.plan != own.plan => other("another plan of this model"),
        _ => Ok(()),
    }
}

/// The key of the app: needed where a rank is on another machine.
pub(crate) fn key_for(addresses: &[&String]) -> Result<Option<AppKey>> {
    let local = |address: &&String| {
        let found = address.to_socket_addrs();
        found.is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
    };
    let key = AppKey::of_environment_unless(addresses.iter().all(local));
    key.map_err(|e| Error::InvalidRequest(e.to_string()))
}

pub(crate) fn of_rank(name: &str, e: RankError) -> Error {
    let text = format!("the rank {name}: {e}");
    match e {
        RankError::Key | RankError::Frame(_) => Error::InvalidRequest(text),
        _ => Error::Runtime(text),
    }
}

pub(crate) fn unexpected(name: &str, what: &impl std::fmt::Debug) -> Error {
    Error::Runtime(format!("the rank {name}: {what:?} came where it has no place"))
}
