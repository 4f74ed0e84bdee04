//! A host for one call, and the end of a sandbox that has a tunnel open.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use stockade::denial::{DenialKind, Grant};
use stockade::executor::{BashExecutor as _, CallPolicy, ExecRequest, RunResult};
use stockade::policy::SandboxMode;
use stockade::sandboxed::SandboxedExecutor;

use crate::executor::{Place, as_every_user, run};
use crate::scene::{PATH, Server};

pub(crate) fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.work().join("probe.py"), include_str!("probe.py")).unwrap();
    place
}

pub(crate) fn executor(place: &Place) -> SandboxedExecutor {
    place.executor_with(SandboxMode::WorkspaceWrite, |config| {
        config.inherited = Some([("PATH", PATH)].map(|(name, value)| (name.into(), value.into())).into());
    })
}

/// A call with a host granted, or none.
pub(crate) fn call(work: &Path, command: &str, network: &[&str]) -> ExecRequest {
    let extra = Grant { network: network.iter().map(|&entry| entry.to_owned()).collect(), ..Grant::default() };
    let mut request = ExecRequest::shell(command);
    let (mode, workspace) = (SandboxMode::WorkspaceWrite, work.to_path_buf());
    request.policy = Some(CallPolicy { mode, workspace, extra, session: None });
    request
}

type Fact = (DenialKind, String, Option<u16>);

/// The output and the hosts and ports of the facts.
fn told(result: &RunResult) -> (&str, Vec<Fact>) {
    let denials = &result.sandbox.as_ref().unwrap().denials;
    let facts = denials.iter().map(|denial| (denial.kind, denial.host.clone().unwrap_or_default(), denial.port));
    (result.stdout.text.trim(), facts.collect())
}

#[test]
fn a_grant_holds_for_one_call() {
    as_every_user("grants::a_grant_holds_for_one_call_inside");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by a_grant_holds_for_one_call as each user"]
async fn a_grant_holds_for_one_call_inside() {
    let (place, server, other) = (place(), Server::start(), Server::start());
    let (work, executor) = (place.work(), executor(&place));
    let closed = "python3 probe.py tcp 192.0.2.1 443; echo ${HTTP_PROXY-none}";
    let is_closed = async || {
        let result = run(&executor, call(&work, closed, &[])).await.unwrap();
        let (out, facts) = told(&result);
        assert_eq!(out, "refused OSError 101\nnone");
        assert_eq!(facts, [(DenialKind::NetConnect, "192.0.2.1".to_owned(), Some(443))]);
    };
    is_closed().await;
    let entry = server.entry();
    let ask = format!("python3 probe.py hosts {entry} {entry}");
    let result = run(&executor, call(&work, &ask, &[&entry])).await.unwrap();
    assert_eq!(told(&result), ("200", vec![]), "{result:?}");
    let asked = server.asked();
    assert_eq!(asked, ["connection", "/a.txt"]);
    let ask_other = format!("python3 probe.py hosts {0} {0}", other.entry());
    let result = run(&executor, call(&work, &ask_other, &[&entry])).await.unwrap();
    let facts = vec![(DenialKind::NetConnect, "127.0.0.1".to_owned(), Some(other.port()))];
    assert_eq!(told(&result), ("403", facts), "just that host and port");
    is_closed().await;
    let result = run(&executor, ExecRequest::shell(format!("python3 probe.py tcp 127.0.0.1 {}", server.port()))).await;
    assert_eq!(told(&result.unwrap()).0, "refused ConnectionRefusedError 111");
    assert_eq!((server.asked(), other.asked()), (asked, vec![]));
    executor.dispose().await;
}

#[test]
fn the_end_closes_the_tunnels() {
    as_every_user("grants::the_end_closes_the_tunnels_inside");
}

/// Waits until the tunnel is open: the first byte through it.
fn tunnel(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    stream
}

/// How long until the other side of the stream is gone.
fn gone_after(mut stream: TcpStream, since: Instant) -> Duration {
    let end = stream.read(&mut [0; 8]);
    let closed = match &end {
        Ok(bytes) => *bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(closed, "the tunnel is still open: {end:?}");
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the_end_closes_the_tunnels as each user"]
async fn the_end_closes_the_tunnels_inside() {
    const WITHIN: Duration = Duration::from_secs(1);
    let place = place();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let entry = listener.local_addr().unwrap().to_string();
    let executor = executor(&place);
    // SIGTERM is not ignored, so the grace period plays no part.
    let hold = call(&place.work(), &format!("exec python3 probe.py hold {entry}"), &[&entry]);
    let process = executor.start(executor.resolve(hold.clone()).unwrap()).await.unwrap();
    let stream = tokio::task::block_in_place(|| tunnel(&listener));
    let since = Instant::now();
    let watch = std::thread::spawn(move || gone_after(stream, since));
    assert!(process.kill().await);
    let killed = watch.join().unwrap();
    assert!(killed < WITHIN, "open for {killed:?} after the kill");

    let _process = executor.start(executor.resolve(hold.clone()).unwrap()).await.unwrap();
    let stream = tokio::task::block_in_place(|| tunnel(&listener));
    let since = Instant::now();
    let watch = std::thread::spawn(move || gone_after(stream, since));
    executor.dispose().await;
    let disposed = watch.join().unwrap();
    assert!(disposed < WITHIN, "open for {disposed:?} after the disposal");
}
