//! The processes of replicas: each is started again when it has ended, as long as the gateway runs.

use super::{
    door::ReplicaDoor,
    replicas::{Replica, ReplicaLife},
};
use crate::ticket::{PLACE, ReplicaHello, ReplicaPlace};
use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// A process that ends sooner is not started again at once.
const SHORT: Duration = Duration::from_secs(5);
/// The longest pause before a start.
const LONGEST: Duration = Duration::from_secs(5);
/// How often the end of a process is looked for; its connections tell of it sooner.
const TICK: Duration = Duration::from_millis(10);
/// How long a process may take to end before it is killed.
const GOODBYE: Duration = Duration::from_secs(3);

/// Runs the process of a replica, again and again, on a thread of its own.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn watch(replica: Arc<Replica>, command: Vec<OsString>, place: ReplicaPlace) -> io::Result<()> {
    let run = move || {
        let mut pause = Duration::ZERO;
        while !replica.is_over() {
            let begun = Instant::now();
            let ended = run_once(&replica, &command, &place);
            replica.down(ended.as_ref().ok().copied());
            if let Err(e) = ended {
                eprintln!("error: replica {} cannot be started: {e}", replica.number);
            }
            pause =
                if begun.elapsed() > SHORT { Duration::ZERO } else { (pause * 2).clamp(TICK * 10, LONGEST) };
            let end = Instant::now() + pause;
            while Instant::now() < end && !replica.is_over() {
                thread::sleep(TICK);
            }
        }
    };
    thread::Builder::new().name("lamina-replica".into()).spawn(run).map(drop)
}

/// Runs a process until it has ended.
fn run_once(replica: &Replica, command: &[OsString], place: &ReplicaPlace) -> io::Result<ExitStatus> {
    let [program, arguments @ ..] = command else { return Err(io::ErrorKind::NotFound.into()) };
    let mut started = Command::new(program);
    started.args(arguments).env(PLACE, place.text()).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C is the gateway's: its replicas answer until it lets go of them.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut started, 0);
    let mut child = started.spawn()?;
    // It ends when its input is closed, which it is when this process ends, however it does.
    let input = child.stdin.take();
    let output = child.stdout.take();
    let hello = output.and_then(|output| BufReader::new(output).lines().next()).transpose()?;
    if let Some(hello) = hello.and_then(|line| serde_json::from_str::<ReplicaHello>(&line).ok()) {
        replica.up(ReplicaLife::new(hello.boot, ReplicaDoor::here(hello.port, &place.key), child.id()));
    }
    while !replica.is_leaving() {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(TICK);
    }
    drop(input);
    goodbye(&mut child)
}

/// Waits for a process whose input is closed, and kills it where it stays.
fn goodbye(child: &mut Child) -> io::Result<ExitStatus> {
    let end = Instant::now() + GOODBYE;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(TICK);
    }
    child.kill()?;
    child.wait()
}
