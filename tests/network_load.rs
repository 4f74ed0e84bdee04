//! Many tunnels, one big one, and the end of all of them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program: failures are panics")]

mod network_support;

use std::time::{Duration, Instant};

use network_support::{Answers, Proxied, echo};
use stockade::network::proxy::{Limits, RefusalReason};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Three descriptors or four for each tunnel, all in this process.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(hard >= 4096, "this test needs 4096 descriptors; the hard limit is {hard}");
    setrlimit(Resource::RLIMIT_NOFILE, 4096.max(hard.min(8192)), hard).unwrap();
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_tunnels_at_once_and_all_closed_within_a_second() {
    raise_descriptor_limit();
    let server = echo("127.0.0.1").await;
    let limits = Limits { tunnels: 500, ..Limits::default() };
    let proxy = Proxied::start_with(&["127.0.0.1"], &[], Answers::new(&[]), limits);
    let before = resident_kib();
    let mut tunnels = Vec::new();
    for _ in 0..500 {
        tunnels.push(proxy.tunnel(&server.to_string()).await.unwrap());
    }
    let answer = proxy.tunnel(&server.to_string()).await.unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 503 "), "one more is refused at once: {answer}");
    assert_eq!(proxy.handle.refusals().entries[0].reason, RefusalReason::TooMany);
    for (index, tunnel) in tunnels.iter_mut().enumerate() {
        tunnel.write_all(&[u8::try_from(index % 256).unwrap(); 5000]).await.unwrap();
    }
    for (index, tunnel) in tunnels.iter_mut().enumerate() {
        let mut back = [0; 5000];
        tunnel.read_exact(&mut back).await.unwrap();
        assert!(back.iter().all(|&byte| usize::from(byte) == index % 256), "no tunnel gets another's bytes");
    }
    // Peers that never read: what they do not take stays with the sender, not in the proxy.
    for tunnel in &mut tunnels {
        let stuffing = tunnel.write_all(&[0; 4096]);
        tokio::time::timeout(Duration::from_millis(50), stuffing).await.ok();
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 200 * 1024, "500 tunnels took {grown} KiB");
    let start = Instant::now();
    assert!(proxy.handle.shutdown().await, "all ended in time");
    let mut rest = vec![0; 64 * 1024];
    for tunnel in &mut tunnels {
        while matches!(tunnel.read(&mut rest).await, Ok(1..)) {}
    }
    assert!(start.elapsed() < Duration::from_secs(2), "closed after {:?}", start.elapsed());
    println!("500 tunnels: {grown} KiB, closed after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_holds_the_sender_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let mut tunnel = proxy.tunnel(&address.to_string()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let block = vec![3; 1024 * 1024];
    let mut sent: u64 = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(500), tunnel.write(&block)).await {
        sent += u64::try_from(written.unwrap()).unwrap();
        assert!(sent < 256 * 1024 * 1024, "nobody reads, and still it goes on");
    }
    tunnel.shutdown().await.unwrap();
    let mut received = 0;
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match server.read(&mut buffer).await.unwrap() {
            0 => break,
            read => received += u64::try_from(read).unwrap(),
        }
    }
    assert_eq!(received, sent, "and all of it arrives once somebody does");
}

const GIB: u64 = 1 << 30;

/// Sends a GiB from one thread to another; how long it took.
fn gibibyte(mut to: std::net::TcpStream, from: std::net::TcpListener) -> Duration {
    use std::io::{Read as _, Write as _};
    let start = Instant::now();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = from.accept().unwrap();
        let mut buffer = vec![0; 256 * 1024];
        let mut total = 0_u64;
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return total,
                read => total += u64::try_from(read).unwrap(),
            }
        }
    });
    let block = vec![9; 256 * 1024];
    for _ in 0..GIB / (256 * 1024) {
        to.write_all(&block).unwrap();
    }
    to.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(receiver.join().unwrap(), GIB);
    start.elapsed()
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(u64::try_from(value.tv_sec()).unwrap(), u32::try_from(value.tv_usec()).unwrap() * 1000)
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// A relay as anyone would write it, to compare with.
async fn plain_relay(to: std::net::SocketAddr) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(to).await.unwrap();
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, 256 * 1024, 256 * 1024).await.ok();
    });
    TcpStream::connect(address).await.unwrap()
}

/// The speeds are printed; asserted is only a bound that a broken relay would miss, for other work may have the
/// processors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gibibyte_through_one_tunnel() {
    let proxy = Proxied::start(&["127.0.0.1"], &[], Answers::new(&[]));
    let mut best = [(Duration::MAX, Duration::MAX); 3];
    for round in 0..9 {
        let way = round % 3;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let to = match way {
            0 => TcpStream::connect(address).await.unwrap(),
            1 => plain_relay(address).await,
            _ => proxy.tunnel(&address.to_string()).await.unwrap(),
        };
        let to = to.into_std().unwrap();
        to.set_nonblocking(false).unwrap();
        let before = cpu();
        let wall = tokio::task::spawn_blocking(move || gibibyte(to, listener)).await.unwrap();
        best[way] = best[way].min((wall, cpu() - before));
    }
    for (way, (wall, cpu)) in ["direct", "tokio relay", "proxy"].iter().zip(best) {
        let ratio = best[0].0.as_secs_f64() / wall.as_secs_f64();
        println!("1 GiB {way}: {wall:.0?}, {cpu:.0?} of CPU, {ratio:.2} of the direct speed");
    }
    assert!(best[2].0 < best[0].0 * 10, "through the proxy {:?}, directly {:?}", best[2].0, best[0].0);
}
