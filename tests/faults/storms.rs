//! Storms of signals, and another clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use stockade::executor::{BashExecutor as _, ExecRequest, Stdin, Timeout};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run};
use crate::traces::Token;
use crate::user::{Programs, User, scratch};
use crate::{BACKENDS, block_on};

/// Thousands of signals a second interrupt every call of the host, and its launcher and inits are stopped and go on.
#[test]
fn interrupted_calls() {
    as_every_user("storms::interrupted_calls_inside");
}

#[test]
#[ignore = "run by interrupted_calls as each user, in a process of its own"]
fn interrupted_calls_inside() {
    block_on(async {
        // Takes the signal, which would end the process; calls that wait (poll, epoll_wait) are interrupted all the same.
        let mut taken = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).unwrap();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let place = Place::new();
        let token = Token::of(place.root());
        let storm = std::thread::spawn({
            let (stop, sent, token) = (Arc::clone(&stop), Arc::clone(&sent), token.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    kill(getpid(), Signal::SIGUSR1).unwrap();
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    if number % 200 == 0 {
                        // SIGCONT interrupts what waits. One that has just ended does not mind.
                        for pid in token.processes().iter().map(|process| Pid::from_raw(process.pid)) {
                            let stopped = kill(pid, Signal::SIGSTOP).and_then(|()| kill(pid, Signal::SIGCONT));
                            assert!(matches!(stopped, Ok(()) | Err(nix::errno::Errno::ESRCH)), "{stopped:?}");
                        }
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for backend in BACKENDS {
            let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            });
            for number in 0..30 {
                let mut request = token.mark(ExecRequest::shell(
                    "wc -c; for i in 1 2 3; do touch f$i; rm f$i; done; touch /usr/x 2>/dev/null; head -c 100000 /dev/zero",
                ));
                request.stdin = Stdin::Bytes(vec![b'x'; 200_000]);
                let result =
                    run(&executor, request).await.unwrap_or_else(|error| panic!("{backend:?} {number}: {error}"));
                assert_eq!(result.exit_code, Some(0), "{backend:?} {number}: {result:?}");
                assert_eq!(result.stdout.bytes, 100_007, "{backend:?} {number}");
                let mut slow = token.mark(ExecRequest::shell("trap '' TERM; sleep 1000 & sleep 1000"));
                slow.timeout = Timeout::After(Duration::from_millis(5));
                if number % 10 == 0 {
                    assert!(run(&executor, slow).await.unwrap().timed_out, "{backend:?} {number}");
                }
            }
            executor.dispose().await;
        }
        stop.store(true, Ordering::Relaxed);
        storm.join().unwrap();
        token.assert_gone("disposal");
        assert!(taken.recv().await.is_some());
        let sent = sent.load(Ordering::Relaxed);
        println!("\nfigure: {sent} signals");
        assert!(sent > 1000, "the control: there was a storm");
    });
}

/// In a time namespace whose steady clocks stand elsewhere; the host's clock is not touched. A clock that is set while a
/// command runs is tested where it matters, with made-up moments: `sandboxed::aftermath`.
#[test]
fn other_clocks() {
    let programs = Programs::get();
    for user in User::all() {
        let place = scratch();
        user.own(place.path());
        for (offset, backend) in [(1_000_000, "namespaces"), (90_000_000, "landlock")] {
            let mut command = user.command("unshare");
            if user.is_root() {
                command.args(["--time"]);
            } else {
                command.args(["--map-root-user", "--time"]);
            }
            command.args([format!("--monotonic={offset}"), format!("--boottime={offset}"), "--fork".to_owned()]);
            command.arg(&programs.stockade).args(["run", "--mode", "workspace-write", "--backend", backend]);
            let script = "echo x >f && cat /proc/uptime && rm f; trap '' TERM; sleep 1000";
            command.args(["--timeout-ms", "700", "-c", script]).current_dir(place.path());
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(124), "{backend}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let uptime: f64 = text.split_whitespace().next().unwrap().parse().unwrap();
            assert!(uptime > f64::from(offset), "the control: it was another clock: {text}");
        }
    }
}
