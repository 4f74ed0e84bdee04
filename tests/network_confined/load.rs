//! Many tunnels out of one sandbox, and the end of all of them.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stockade::executor::BashExecutor as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::executor::as_every_user;
use crate::grants::{call, executor, place};
use crate::scene::{Scene, Server};

const TUNNELS: usize = 500;

/// Sends everything back; how many connections are open.
fn echo() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, open) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let count = Arc::clone(&open);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        break;
                    }
                }
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (address, open)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn five_hundred_tunnels_and_their_end() {
    as_every_user("load::five_hundred_tunnels_and_their_end_inside");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by five_hundred_tunnels_and_their_end as each user"]
async fn five_hundred_tunnels_and_their_end_inside() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let place = place();
    let (address, open) = echo();
    let entry = address.to_string();
    let executor = executor(&place);
    let command = format!("exec python3 probe.py tunnels {TUNNELS} {entry}");
    let before = resident_kib();
    let process = executor.start(executor.resolve(call(&place.work(), &command, &[&entry])).unwrap()).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !place.work().join("all-open").exists() {
        assert!(Instant::now() < patience, "{} are open", open.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(open.load(Ordering::SeqCst), TUNNELS);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 100 * 1024, "{TUNNELS} tunnels took {grown} KiB");
    let since = Instant::now();
    assert!(process.kill().await);
    while open.load(Ordering::SeqCst) > 0 {
        let (left, after) = (open.load(Ordering::SeqCst), since.elapsed());
        assert!(after < Duration::from_secs(1), "{left} are open {after:?} after the kill");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("figure: {TUNNELS} tunnels: {grown} KiB, closed after {:?}", since.elapsed());
    executor.dispose().await;
}

/// The usual limit of open files is lower than what so many tunnels take; the command keeps the one it was given.
#[test]
fn many_tunnels_of_stockade_run() {
    for scene in Scene::all() {
        let server = Server::start();
        let entry = server.entry();
        let command = format!("ulimit -Sn; timeout 20 python3 probe.py many {TUNNELS} {entry}");
        let run = scene.limited(1024, &["--allow-host", &entry], &command);
        assert_eq!(run.works(), format!("1024\n{TUNNELS}"), "{:#}", run.result);
    }
}
