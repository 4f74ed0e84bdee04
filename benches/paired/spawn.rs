//! Starting a command from a program that embeds the library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade::executor::{BashExecutor, ExecRequest, Timeout};
use stockade::local::{LocalConfig, LocalExecutor};
use stockade::policy::{HostPaths, PolicyRequest, SandboxMode};
use stockade::sandboxed::{LayeredPolicy, SandboxedConfig, SandboxedExecutor, TraceChoice};
use tokio::runtime::Runtime;

use super::figures::{Figures, Times};

const WARM_UP: usize = 5;
/// What the large host holds, bytes.
const LARGE: usize = 1 << 30;
/// Between two commands of a session that waits for its model; a sandbox is built meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) fn local() -> LocalExecutor {
    LocalExecutor::new(LocalConfig::default()).unwrap()
}

/// An executor of workspace-write in the current directory.
pub(crate) fn confined(trace: TraceChoice) -> SandboxedExecutor {
    let host = HostPaths::of_process().unwrap();
    let workspace = host.cwd.clone();
    confined_by(PolicyRequest::new(SandboxMode::WorkspaceWrite, workspace), host, trace)
}

pub(crate) fn confined_by(request: PolicyRequest, host: HostPaths, trace: TraceChoice) -> SandboxedExecutor {
    let mut config = SandboxedConfig::new(Arc::new(LayeredPolicy::new(request, host).unwrap()));
    config.trace = trace;
    SandboxedExecutor::new(config).unwrap()
}

/// Milliseconds of one `bash -c true`.
pub(crate) async fn run_true(executor: &dyn BashExecutor) -> f64 {
    let request = ExecRequest { timeout: Timeout::None, ..ExecRequest::shell("true") };
    let spec = executor.resolve(request).unwrap();
    let began = Instant::now();
    let result = executor.run(spec).await.unwrap();
    let took = began.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(result.exit_code, Some(0), "{result:?}");
    took
}

/// One call after the other, with time to think in between.
pub(crate) fn warm(rounds: usize, figures: &mut Figures) {
    runtime().block_on(alternate(rounds, "warm spawn", figures));
}

async fn alternate(rounds: usize, group: &str, figures: &mut Figures) {
    let (local, traced, untraced) = (local(), confined(TraceChoice::Auto), confined(TraceChoice::Off));
    let mut times = Times::of(&["local executor", "confined, traced", "confined, not traced"]);
    for round in 0..rounds + WARM_UP {
        let mut took = Vec::new();
        for executor in [&local as &dyn BashExecutor, &traced, &untraced] {
            tokio::time::sleep(PAUSE).await;
            took.push(run_true(executor).await);
        }
        if round >= WARM_UP {
            times.add(took);
        }
    }
    for executor in [&local as &dyn BashExecutor, &traced, &untraced] {
        executor.dispose().await;
    }
    figures.take(group, "ms", &times);
}

/// The second call of a fresh executor: its launcher runs, and nothing is ready for the call.
pub(crate) fn cold(rounds: usize, figures: &mut Figures) {
    runtime().block_on(async {
        let local = local();
        let mut times = Times::of(&["local executor", "first call of an executor", "call under a new policy"]);
        for round in 0..rounds + WARM_UP {
            let executor = confined(TraceChoice::Auto);
            let plain = run_true(&local).await;
            let first = run_true(&executor).await;
            tokio::time::sleep(PAUSE).await;
            let request = ExecRequest { timeout: Timeout::None, ..ExecRequest::shell("true") };
            let mut spec = executor.resolve(request).unwrap();
            let mut policy = stockade::executor::CallPolicy {
                mode: SandboxMode::ReadOnly,
                workspace: std::env::current_dir().unwrap(),
                extra: stockade::denial::Grant::default(),
                session: None,
            };
            policy.extra.write = Vec::new();
            spec.policy = Some(policy);
            let began = Instant::now();
            executor.run(spec).await.unwrap();
            let other = began.elapsed().as_secs_f64() * 1000.0;
            executor.dispose().await;
            if round >= WARM_UP {
                times.add([plain, first, other]);
            }
        }
        local.dispose().await;
        figures.take("cold spawn", "ms", &times);
    });
}

/// The same as warm, from a host that would be expensive to fork.
pub(crate) fn from_a_large_host(rounds: usize, figures: &mut Figures) {
    // Touched, so that it is resident and would have to be copied by a fork.
    let ballast = vec![1_u8; LARGE];
    runtime().block_on(alternate(rounds, "warm spawn, host of 1 GiB", figures));
    assert_eq!(ballast.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>(), LARGE / 4096);
}
