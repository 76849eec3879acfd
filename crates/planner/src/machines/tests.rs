//! The forecast over machines: the table it was decided by, laws, and what is refused.

use super::{RankGrid, RankHost, RankLink, RankModel, RankQuestion};

/// Weights, read by a row, experts' part, experts, used, layers, hidden, vocabulary, cache of a token, multiply-adds.
type Shape = [f64; 10];
const DENSE_70B: Shape = [42.5e9, 41.8e9, 0.0, 1.0, 1.0, 80.0, 8192.0, 128256.0, 327680.0, 70e9];
const EXPERTS_235B: Shape = [142e9, 13.4e9, 0.66, 128.0, 8.0, 94.0, 4096.0, 151936.0, 192512.0, 22e9];
const LATENTS_671B: Shape = [404e9, 23.5e9, 0.57, 256.0, 8.0, 61.0, 7168.0, 129280.0, 70272.0, 37e9];
/// Memory, bytes per second, multiply-adds per second.
const DESKTOP: [f64; 3] = [128e9, 72e9, 1e12];
const SOCKET: [f64; 3] = [512e9, 165e9, 2.5e12];
const LARGE: [f64; 3] = [768e9, 380e9, 8e12];

/// Machines a layer and stages of each column of [`TABLE`].
const GRIDS: [(usize, usize); 5] = [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2)];
/// Tokens per second of one sequence / of 16 / of a prompt, behind 4,096 tokens; sockets have two columns.
#[rustfmt::skip]
const TABLE: [(Shape, [f64; 3], &str, &[&str]); 13] = [
    (DENSE_70B, DESKTOP, "1GbE", &["1.7 / 14 / 9", "2.8 / 12 / 17", "4.0 / 11 / 15", "5.4 / 11 / 13", "5.4 / 21 / 25"]),
    (DENSE_70B, DESKTOP, "10GbE", &["1.7 / 14 / 9", "3.2 / 25 / 17", "5.9 / 40 / 34", "10.5 / 57 / 69", "10.5 / 95 / 137"]),
    (DENSE_70B, LARGE, "sockets", &["8.7 / 96 / 69", "17.0 / 179 / 137"]),
    (DENSE_70B, LARGE, "25GbE", &["8.7 / 96 / 69", "15.7 / 135 / 137", "25.7 / 168 / 274", "37.8 / 197 / 315", "37.8 / 307 / 629"]),
    (DENSE_70B, LARGE, "RDMA", &["8.7 / 96 / 69", "16.9 / 172 / 137", "31.6 / 286 / 274", "56.7 / 433 / 549", "56.6 / 600 / 1097"]),
    (EXPERTS_235B, DESKTOP, "10GbE", &["-", "9.2 / 20 / 55", "15.3 / 35 / 109", "22.9 / 57 / 212", "22.9 / 94 / 424"]),
    (EXPERTS_235B, SOCKET, "10GbE", &["11.5 / 24 / 68", "18.7 / 42 / 136", "26.8 / 65 / 247", "33.6 / 92 / 212", "33.5 / 153 / 424"]),
    (EXPERTS_235B, LARGE, "sockets", &["26.1 / 56 / 218", "48.6 / 109 / 436"]),
    (EXPERTS_235B, LARGE, "RDMA", &["26.1 / 56 / 218", "47.8 / 107 / 436", "82.3 / 197 / 873", "124.1 / 344 / 1745", "124.0 / 547 / 3491"]),
    (LATENTS_671B, DESKTOP, "10GbE", &["-", "-", "10.0 / 21 / 65", "16.7 / 34 / 130", "16.7 / 59 / 259"]),
    (LATENTS_671B, SOCKET, "10GbE", &["6.9 / 14 / 41", "12.3 / 25 / 81", "19.3 / 41 / 162", "28.9 / 61 / 187", "28.9 / 108 / 375"]),
    (LATENTS_671B, LARGE, "sockets", &["15.7 / 33 / 130", "30.0 / 63 / 259"]),
    (LATENTS_671B, LARGE, "RDMA", &["15.7 / 33 / 130", "29.7 / 62 / 259", "53.2 / 113 / 519", "88.6 / 193 / 1038", "88.6 / 335 / 2076"]),
];

fn question(shape: Shape, host: [f64; 3], link: &str) -> RankQuestion {
    let [weights, row, expert_part, experts, used, layers, hidden, vocabulary, cache, macs] = shape;
    let whole_cache = shape == LATENTS_671B;
    #[rustfmt::skip]
    let model = RankModel { weights, row, expert_part, experts, used, layers, hidden, vocabulary, cache, whole_cache, macs };
    let [memory, bandwidth, macs] = host;
    let host = RankHost { memory, bandwidth, macs };
    RankQuestion { model, host, link: RankLink::read(link).unwrap(), context: 4096, sequences: 16 }
}

#[test]
fn the_table_of_the_formula_is_reproduced() {
    for (shape, host, link, cells) in TABLE {
        let question = question(shape, host, link);
        for (&(tensor, stages), cell) in GRIDS.iter().zip(cells) {
            let found = question.ranks(RankGrid::new(tensor, stages).unwrap());
            let told = match (found.one, found.all, found.prompt) {
                (Some(one), Some(all), Some(prompt)) => format!("{one:.1} / {all:.0} / {prompt:.0}"),
                _ => "-".into(),
            };
            assert_eq!(&told, cell, "{link}, {tensor} x {stages}, {:?}", question.host);
        }
    }
}

#[test]
fn better_links_and_hosts_are_never_slower() {
    for (shape, host, link, _) in TABLE {
        let slow = question(shape, host, link);
        let mut links = [slow.clone(), slow.clone()];
        links[0].link.alpha /= 2.0;
        links[1].link.beta *= 2.0;
        let mut hosts = [slow.clone(), slow.clone()];
        hosts[0].host.bandwidth *= 2.0;
        hosts[1].host.macs *= 2.0;
        for (tensor, stages) in GRIDS {
            let grid = RankGrid::new(tensor, stages).unwrap();
            let before = slow.ranks(grid);
            for fast in links.iter().chain(&hosts) {
                let after = fast.ranks(grid);
                assert!(after.one >= before.one && after.all >= before.all && after.prompt >= before.prompt);
            }
        }
    }
}

#[test]
fn an_exchange_takes_more_with_bytes_and_nothing_alone() {
    let link = RankLink::read("10GbE").unwrap();
    assert_eq!(link.exchange(1, 1e9), 0.0);
    for ranks in [2, 4, 8] {
        let times = [0.0, 1e3, 1e5, 1e7].map(|bytes| link.exchange(ranks, bytes));
        assert!(times.is_sorted() && times[0] == link.alpha, "{times:?}");
    }
}

#[test]
fn replicas_divide_sequences_and_leave_one_as_it_is() {
    let question = question(DENSE_70B, DESKTOP, "1GbE");
    let (alone, two) = (question.replicas(1), question.replicas(2));
    assert_eq!(alone, question.ranks(RankGrid::of(1).unwrap()));
    assert_eq!((alone.one, alone.prompt), (two.one, two.prompt));
    assert!(two.all > alone.all);
    // With more replicas than sequences one answers each, and others wait.
    assert_eq!(question.replicas(16).all, question.replicas(64).all);
}

#[test]
fn counts_that_give_other_bits_are_refused_with_what_to_do() {
    for machines in [0, 3, 5, 6, 7, 12] {
        let said = RankGrid::of(machines).unwrap_err().to_string();
        assert!(said.contains(&machines.to_string()) && said.contains("1, 2, 4 or 8"), "{said}");
    }
    for machines in [1, 2, 4, 8, 16, 24] {
        assert_eq!(RankGrid::of(machines).unwrap().machines(), machines);
    }
    assert!(RankGrid::new(2, 0).is_err());
}

#[test]
fn links_are_names_or_two_figures() {
    let link = RankLink::read("35e-6, 1.15e9").unwrap();
    assert_eq!((link.alpha, link.beta), (35e-6, 1.15e9));
    assert_eq!(RankLink::read("10gbe").unwrap().name, "10GbE");
    for wrong in ["", "40GbE", "1", "0,1", "1,-1", "nan,1", "1,inf"] {
        assert!(RankLink::read(wrong).unwrap_err().to_string().contains("RDMA"), "{wrong}");
    }
}
