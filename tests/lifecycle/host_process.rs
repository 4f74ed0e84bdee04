//! Nothing about the process that embeds the executor changes, however large it is.

use std::collections::BTreeMap;
use std::fs;

use stockade::executor::{BashExecutor as _, ExecRequest, Timeout};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run, shell};
use crate::{BACKENDS, block_on};

#[test]
fn nothing_sticks() {
    as_every_user("host_process::nothing_sticks_inside");
}

#[test]
#[ignore = "run by nothing_sticks as each user, in a process of its own"]
fn nothing_sticks_inside() {
    // A gigabyte that is really there: a fork would have to copy its page tables.
    let ballast = vec![1_u8; 1 << 30];
    block_on(async {
        let place = Place::new();
        std::env::set_current_dir(place.root()).unwrap();
        let before = properties();
        for backend in BACKENDS {
            for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
                let executor = place.executor(mode, backend);
                shell(&executor, "umask 0; cd /; ulimit -n 20; trap '' INT; export X=1; kill -STOP $$ & kill -CONT $$")
                    .await;
                let mut slow = ExecRequest::shell("sleep 1000");
                slow.timeout = Timeout::After(std::time::Duration::from_millis(50));
                assert!(run(&executor, slow).await.unwrap().timed_out);
                run(&executor, ExecRequest { workdir: Some("/nowhere".into()), ..ExecRequest::shell("true") })
                    .await
                    .unwrap_err();
                let during = properties();
                assert_eq!(during, before, "{mode}, {backend:?}, with the executor alive");
                executor.dispose().await;
            }
        }
        assert_eq!(properties(), before);
        // The control: what is compared does change when something is changed.
        std::env::set_current_dir("/").unwrap();
        assert_ne!(properties(), before);
    });
    assert_eq!(ballast[ballast.len() / 2], 1);
}

/// All that a library could change about its process and that would stay changed.
fn properties() -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let kept = [
        "Umask",
        "Uid",
        "Gid",
        "Groups",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
        "Seccomp_filters",
        "Cpus_allowed",
        "Mems_allowed",
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap();
    for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
        if kept.contains(&name) {
            properties.insert(name.to_owned(), value.trim().to_owned());
        }
    }
    properties.insert("limits".to_owned(), fs::read_to_string("/proc/self/limits").unwrap());
    properties.insert("cwd".to_owned(), std::env::current_dir().unwrap().display().to_string());
    properties.insert("environment".to_owned(), format!("{:?}", std::env::vars_os().collect::<Vec<_>>()));
    properties.insert("subreaper".to_owned(), format!("{:?}", nix::sys::prctl::get_child_subreaper()));
    properties.insert("dumpable".to_owned(), format!("{:?}", nix::sys::prctl::get_dumpable()));
    properties
        .insert("group and session".to_owned(), format!("{:?}", (nix::unistd::getpgrp(), nix::unistd::getsid(None))));
    properties.insert("oom".to_owned(), fs::read_to_string("/proc/self/oom_score_adj").unwrap());
    properties.insert("cgroup".to_owned(), fs::read_to_string("/proc/self/cgroup").unwrap());
    for entry in fs::read_dir("/proc/self/ns").unwrap() {
        let path = entry.unwrap().path();
        properties.insert(path.display().to_string(), fs::read_link(&path).unwrap().display().to_string());
    }
    properties
}
