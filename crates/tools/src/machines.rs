//! What several machines make of a model, as lines of a report and as JSON.

use crate::speeds::{figure, speed_json, speeds};
use lamina::{MachinesForecast, ReplicasSpeed, ShardsForecast, StageLink, StagesForecast};
use lamina_base::human_bytes;
use serde_json::{Value, json};

/// Lines for people, each with its name.
pub(crate) fn machines_lines(all: &[MachinesForecast]) -> impl Iterator<Item = (&'static str, String)> {
    all.iter().flat_map(|one| {
        let stages = match &one.stages {
            Ok(stages) => describe_stages(stages, one.link),
            Err(why) => format!("cannot be: {why}"),
        };
        let shards = match &one.shards {
            Ok(shards) => describe_shards(shards),
            Err(why) => format!("cannot be: {why}"),
        };
        let replicas = (!one.replicas.is_empty()).then(|| {
            let speeds: Vec<String> = one.replicas.iter().map(describe_replicas).collect();
            ("replicas", format!("on {}: {}", one.machines, speeds.join(" | ")))
        });
        let divided = [("stages", stages), ("shards", shards)];
        divided.map(|(how, told)| (how, format!("on {}: {told}", one.machines))).into_iter().chain(replicas)
    })
}

fn describe_stages(stages: &StagesForecast, link: StageLink) -> String {
    let most = stages.memory.iter().max().copied().unwrap_or(0);
    let disk = if stages.streams { ", some of it read from disk in every step" } else { "" };
    format!(
        "{} layers ({link}), {} of memory at most{disk}; {} tokens of context; {}",
        counts(&stages.layers),
        human_bytes(most),
        stages.context,
        speeds(&stages.decode, &stages.prefill)
    )
}

fn describe_shards(shards: &ShardsForecast) -> String {
    let most = shards.memory.iter().max().copied().unwrap_or(0);
    let disk = if shards.streams { ", some of it read from disk in every step" } else { "" };
    format!(
        "{} rounds a step, {} of memory at most{disk}; {} tokens of context; {}",
        shards.rounds,
        human_bytes(most),
        shards.context,
        speeds(&shards.decode, &shards.prefill)
    )
}

/// `16 + 16`, and `16 + 5 x 12` where several have as many.
fn counts(layers: &[usize]) -> String {
    let run = |same: &[usize]| match same {
        [one] => one.to_string(),
        same => format!("{} x {}", same.len(), same[0]),
    };
    layers.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(" + ")
}

fn describe_replicas(speed: &ReplicasSpeed) -> String {
    let plural = if speed.batch == 1 { "" } else { "s" };
    format!("{} sequence{plural} {} tokens/s", speed.batch, figure(speed.tok_s))
}

pub(crate) fn machines_json(all: &[MachinesForecast]) -> Value {
    let stages = |stages: &StagesForecast| {
        json!({"layers": stages.layers, "memory": stages.memory, "context": stages.context, "streams": stages.streams,
               "decode": stages.decode.iter().map(speed_json).collect::<Vec<_>>(),
               "prefill": stages.prefill.iter().map(speed_json).collect::<Vec<_>>()})
    };
    let shards = |shards: &ShardsForecast| {
        json!({"memory": shards.memory, "context": shards.context, "rounds": shards.rounds, "streams": shards.streams,
               "problem": Value::Null, "decode": shards.decode.iter().map(speed_json).collect::<Vec<_>>(),
               "prefill": shards.prefill.iter().map(speed_json).collect::<Vec<_>>()})
    };
    let replica = |speed: &ReplicasSpeed| json!({"batch": speed.batch, "tok_s": speed.tok_s});
    let link =
        |link: StageLink| json!({"name": link.name, "message_s": link.seconds, "gb_s": link.rate / 1e9});
    let one = |of: &MachinesForecast| {
        json!({"machines": of.machines, "link": link(of.link), "problem": of.stages.as_ref().err(), "stages": of.stages.as_ref().ok().map(stages),
               "shards": of.shards.as_ref().map_or_else(|why| json!({"problem": why}), shards),
               "replicas": of.replicas.iter().map(replica).collect::<Vec<_>>()})
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_counts_are_told_together() {
        assert_eq!(counts(&[16, 16]), "2 x 16");
        assert_eq!(counts(&[3, 4, 4, 5]), "3 + 2 x 4 + 5");
        assert_eq!(counts(&[0, 8]), "0 + 8");
    }
}
