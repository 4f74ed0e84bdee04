//! Background commands that wait: what each costs this process, and what in all.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use procfs::process::Process;
use stockade::executor::{BashExecutor as _, ExecRequest, ProcessStatus};
use stockade::plan::BackendChoice;
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, shell};
use crate::traces::{Token, tree};
use crate::{block_on, setting};

/// Promised per idle command, KiB: in this process, and in all.
const HOST_KIB: f64 = 64.0;
const ALL_KIB: f64 = 1024.0;

#[test]
fn an_idle_background_command_costs_little() {
    as_every_user("idle::an_idle_background_command_costs_little_inside");
}

#[test]
#[ignore = "run by an_idle_background_command_costs_little as each user, in a process of its own"]
fn an_idle_background_command_costs_little_inside() {
    let tasks = setting("STOCKADE_IDLE_TASKS", 100);
    // Each holds four descriptors here; who wants thousands raises the limit, which a library does not do for them.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    block_on(async {
        let place = Place::new();
        let token = Token::of(place.root());
        let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
            config.backend = BackendChoice::Namespaces;
            token.mark_launcher(&place, config);
        });
        // A host that has been at work for a while: what an allocator keeps, it keeps already.
        for _ in 0..20 {
            shell(&executor, "head -c 300000 /dev/zero").await;
        }
        let before = resident();
        let kernel_before = kernel_memory();
        let mut processes = Vec::new();
        for _ in 0..tasks {
            let request = token.mark(ExecRequest::shell("exec sleep 100000"));
            processes.push(executor.start(executor.resolve(request).unwrap()).await.unwrap());
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(processes.iter().all(|process| process.status() == ProcessStatus::Running), "the control: all run");
        let each = |bytes: u64| f64::from(u32::try_from(bytes).unwrap()) / f64::from(u32::try_from(tasks).unwrap());
        let host = each(resident().saturating_sub(before));
        let inside: Vec<Process> = token.processes();
        assert!(inside.len() > 2 * tasks, "an init and a command each, and the launcher");
        let descriptors = Process::myself().unwrap().fd_count().unwrap();
        println!("\nfigure: {tasks} idle commands: {host:.1} KiB each in this process, {descriptors} descriptors here");
        assert!(host <= HOST_KIB, "{host} KiB each");
        if geteuid().is_root() {
            let own: u64 = inside.iter().map(proportional).sum();
            let kernel = kernel_memory().saturating_sub(kernel_before);
            let (own, kernel) = (each(own), each(kernel));
            println!("\nfigure: {own:.1} KiB each in their own processes, about {kernel:.1} KiB each in the kernel");
            // What the kernel holds is counted for the whole machine, where others are at work too: told, not asserted.
            assert!(host + own <= ALL_KIB, "{host} and {own} KiB each");
        }
        executor.dispose().await;
        for process in processes {
            assert!(process.done().await.unwrap().aborted);
        }
        token.assert_gone("disposal");
        assert_eq!(tree(&place.state()), Vec::<std::path::PathBuf>::new());
    });
}

/// Of this process, KiB.
fn resident() -> u64 {
    Process::myself().unwrap().status().unwrap().vmrss.unwrap()
}

/// What a process has to itself, with its share of what it shares, KiB.
fn proportional(process: &Process) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}

/// The whole kernel's slabs, stacks, page tables and per-CPU data, KiB.
fn kernel_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let values: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.trim().trim_end_matches(" kB").parse().ok()?))
        })
        .collect();
    ["SUnreclaim", "KernelStack", "PageTables", "Percpu"].iter().map(|name| values[name]).sum()
}
