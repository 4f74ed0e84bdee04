//! Processes of the host, their memory, signals, scheduling and System V objects; the caller's group and terminal;
//! outliving the command and eating what the host has.

use crate::table::{Around, Attack, Control, Effect, control, control_in_namespaces};

const ISOLATION: &[&str] = &["process-isolation"];

fn row(family: &'static str, effect: Effect, args: &str) -> Attack {
    Attack::new(family, effect, args).gap(ISOLATION)
}

fn memory() -> Vec<Attack> {
    use Effect::{Claim, Leak, World};
    vec![
        row("process", World, "ptrace {pid} poke {addr}"),
        row("process", Claim, "ptrace {pid} seize"),
        Attack::new("process", Claim, "ptrace 0 traceme"),
        row("process", World, "vm-write {pid} {addr}"),
        row("process", Leak, "vm-read {pid} {addr}"),
        row("process", Leak, "pidfd-getfd {pid} {held}"),
        row("process", Claim, "kcmp {pid}"),
        row("process", World, "proc-mem-write {pid} {addr}"),
        row("process", Leak, "proc-mem-read {pid} {addr}"),
        row("process", Leak, "proc-read {pid} environ"),
        row("process", Leak, "proc-read {pid} fd/{held}"),
        row("process", Claim, "proc-read {pid} maps"),
        row("process", Claim, "proc-read {pid} auxv"),
        row("process", Claim, "proc-read {pid} stack").root(),
        row("process", Claim, "proc-read {pid} cmdline"),
        row("process", World, "proc-link {pid} root {out}/file"),
        row("process", World, "proc-link {pid} cwd out/file"),
        row("process", World, "proc-link {pid} fd {held}").nobody("the bystander's held file has no name to compare"),
        Attack::new("process", World, "proc-link 1 root {out}/file")
            .nobody("the first process may hold capabilities that this one lacks"),
        row("process", World, "proc-set {pid} oom_score_adj 900"),
        row("process", World, "proc-set {pid} timerslack_ns 12345").root(),
        row("process", World, "proc-set {pid} coredump_filter 0x7f"),
        row("process", World, "proc-set {pid} comm renamed").nobody("only threads of the same process may"),
        row("process", Claim, "proc-set {pid} clear_refs 1"),
        row("process", Claim, "see-pid {pid} {token}"),
        row("process", Claim, "see-any {token}"),
        row("process", Leak, "ancestors-environ 1"),
        row("process", Leak, "ancestors-environ 4"),
        Attack::new("process", Leak, "print-env AWS_SECRET_ACCESS_KEY"),
        Attack::new("process", Leak, "print-env GITHUB_TOKEN"),
        Attack::new("process", Leak, "read {home}/.ssh/id_test").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.aws/credentials").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.netrc").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.docker/config.json").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.kube/config").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.npmrc").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.pypirc").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.cargo/credentials.toml").gap(&["deny-read"]),
        Attack::new("process", Leak, "read {home}/.gnupg/key").gap(&["deny-read"]),
        Attack::new("process", Leak, "proc-read self root{home}/.ssh/id_test").gap(&["deny-read"]),
        Attack::new("process", Leak, "sh:ln {home}/.ssh/id_test {scratch}/id && cat {scratch}/id").gap(&["deny-read"]),
        Attack::new("process", Leak, "sh:mv {home}/.ssh {home}/.ssh2 && cat {home}/.ssh2/id_test").gap(&["deny-read"]),
    ]
}

fn signals() -> Vec<Attack> {
    let mut all = Vec::new();
    for how in ["kill", "tkill", "tgkill", "sigqueue", "tgsigqueue", "pidfd", "pidfd-proc", "group"] {
        all.push(row("signal", Effect::World, &format!("signal {{pid}} {how}")));
    }
    all.push(row("signal", Effect::World, "signal {pid} kill 9"));
    all.push(row("signal", Effect::World, "signal {pid} kill 19"));
    for how in ["setown", "setown-ex", "fiosetown", "siocspgrp"] {
        all.push(row("signal", Effect::World, &format!("setown {{pid}} {how}")));
    }
    all.push(row("signal", Effect::World, "int80 kill {pid}"));
    all.push(row("signal", Effect::Claim, "ask {pid} exists"));
    all.push(row("signal", Effect::Claim, "ask {pid} pidfd"));
    for how in ["zero", "pgid", "parent", "all", "pidfd", "sigio"] {
        let effect = Effect::Group;
        let attack = row("group", effect, &format!("signal-own-group {how}")).around(Around::Group).alone();
        all.push(if how == "parent" {
            attack.nobody("the parent is the shell of the run itself")
        } else if how == "pidfd" {
            attack.nobody("the group's leader has no descriptor everywhere")
        } else {
            attack
        });
    }
    all
}

fn tuning() -> Vec<Attack> {
    let mut all: Vec<_> =
        ["prlimit", "prlimit-core", "setpriority", "setpriority-group", "affinity", "scheduler", "setattr", "ioprio"]
            .iter()
            .map(|how| row("tuning", Effect::World, &format!("tune {{pid}} {how}")))
            .collect();
    all.extend([
        row("tuning", Effect::Claim, "tune {pid} setparam"),
        row("tuning", Effect::Claim, "tune {pid} madvise {addr}").root(),
        row("tuning", Effect::Claim, "tune {pid} migrate"),
        row("tuning", Effect::Claim, "tune {pid} pages"),
        row("tuning", Effect::Claim, "ask {pid} prlimit"),
        row("tuning", Effect::Claim, "ask {pid} robust"),
        row("tuning", Effect::Claim, "tune {pid} core-sched").nobody("core scheduling needs SMT"),
        row("tuning", Effect::World, "tune {pid} setpgid").nobody("only a parent may, before exec"),
    ]);
    all
}

fn ipc() -> Vec<Attack> {
    use Effect::{Claim, Leak, World};
    vec![
        row("ipc", Leak, "sysv-shm {sysv} read"),
        row("ipc", World, "sysv-shm {sysv} write"),
        row("ipc", World, "sysv-shm {sysv} remove"),
        row("ipc", World, "sysv-sem {sysv}"),
        row("ipc", World, "sysv-sem {sysv} timed"),
        row("ipc", World, "sysv-sem {sysv} remove"),
        row("ipc", World, "sysv-msg {sysv}"),
        row("ipc", World, "sysv-msg {sysv} remove"),
        row("ipc", Claim, "sysv-msg {sysv} receive"),
        row("ipc", World, "posix-mq /{token} send"),
        row("ipc", World, "posix-shm /{token}"),
        row("ipc", World, "open /dev/shm/{token} wronly"),
        row("ipc", Claim, "unlink /dev/shm/{token}"),
        row("ipc", Claim, "posix-mq /{token} unlink"),
    ]
}

fn life() -> Vec<Attack> {
    let mut all: Vec<_> =
        ["double", "single", "clone-parent", "ignore-term", "hop", "stopped", "undumpable", "subreaper"]
            .iter()
            .map(|how| row("daemon", Effect::Survivor, &format!("daemon {how} {{token}}")))
            .collect();
    all.push(row("daemon", Effect::Survivor, "sh:nohup setsid {probe} sleep 40 {token} >/dev/null 2>&1 &"));
    all.extend([
        Attack::new("bomb", Effect::Claim, "fork-bomb 1500").gap(&["limits"]).alone(),
        Attack::new("bomb", Effect::Claim, "memory-bomb 4400")
            .limit("memory, where a policy sets no limit")
            .gap(&["limits"])
            .alone()
            .nobody("it would take this host's memory"),
        Attack::new("bomb", Effect::Claim, "disk-fill /tmp 6000").gap(&["limits"]).alone(),
        Attack::new("bomb", Effect::Claim, "disk-fill /dev/shm 6000")
            .gap(&["limits"])
            .alone()
            .nobody("it would take this host's memory"),
    ]);
    all
}

fn terminal() -> Vec<Attack> {
    let mut all = Vec::new();
    let hows = [
        ("sti", true),
        ("sti-high", true),
        ("sti-high63", true),
        ("termios", true),
        ("winsize", true),
        ("nonblock", true),
        ("append", true),
        ("exclusive", true),
        ("stop", true),
        ("hangup", true),
        ("lock", true),
        ("foreground", true),
        ("steal", false),
    ];
    for fd in ["0", "1", "tty"] {
        for (how, possible) in hows {
            if fd != "0" && ["append", "steal", "sti-high63", "lock", "hangup"].contains(&how) {
                continue;
            }
            let attack = Attack::new("terminal", Effect::Terminal, &format!("terminal {fd} {how}"))
                .around(Around::Terminal)
                .gap(&["ioctl"])
                .alone();
            let shared = fd == "tty" && how == "nonblock";
            all.push(if !possible || shared {
                attack.nobody("a descriptor of one's own, or a terminal that is somebody's already")
            } else if ["steal", "hangup", "lock"].contains(&how) {
                attack.root()
            } else {
                attack
            });
        }
    }
    for how in ["linux", "linux-high", "setd", "signal"] {
        let attack =
            Attack::new("terminal", Effect::Claim, &format!("terminal 0 {how}")).around(Around::Terminal).alone();
        all.push(if how == "setd" { attack } else { attack.nobody("not a console, or not a master side") });
    }
    all
}

pub(crate) fn attacks() -> Vec<Attack> {
    [memory(), signals(), tuning(), ipc(), life(), terminal()].concat()
}

pub(crate) const CONTROLS: &[Control] = &[
    control("process", "sh:ps >/dev/null 2>&1; cat /proc/self/status >/dev/null"),
    control("process", "read {home}/.bashrc"),
    control("signal", "sh:sleep 30 & kill $! && ! wait $!"),
    control("signal", "setown 0 setown"),
    control("group", "sh:trap 'exit 0' USR1; kill -USR1 $$; exit 1"),
    control("tuning", "tune 0 prlimit-core"),
    control("tuning", "tune 0 setpriority"),
    control_in_namespaces("ipc", "sysv-own"),
    control("daemon", "sh:(sleep 0.01 &) ; true"),
    control("bomb", "fork-bomb 40"),
    control("terminal", "sh:test -r /dev/null"),
];
