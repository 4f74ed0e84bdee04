use super::*;
use crate::launcher::{SetupFailure, Stage};

fn good() -> Facts {
    Facts {
        euid: 1000,
        release: "7.1.0".into(),
        kernel: (7, 1),
        probes: Probe::ALL.into_iter().map(|probe| (probe, Ok(()))).collect(),
        landlock_abi: 9,
        sees_host_sockets: true,
        sandbox_built: true,
        own_pid_max: true,
        bash: Some("/bin/bash".into()),
        git: Some("/usr/bin/git".into()),
        max_user_namespaces: Some(1000),
        lsm: Some("landlock,apparmor".into()),
        cgroup: Cgroup::Delegated("/sys/fs/cgroup/x".into()),
        ..Facts::default()
    }
}

fn without(mut facts: Facts, probes: &[Probe], errno: Errno) -> Facts {
    facts.probes.extend(probes.iter().map(|probe| (*probe, Err(errno as i32))));
    facts
}

fn remedy(facts: &Facts, name: &str) -> String {
    let features = features(facts);
    let feature = features.into_iter().find(|feature| feature.name == name).unwrap();
    assert!(!feature.present && feature.lost.is_some(), "{feature:?}");
    feature.remedy.unwrap()
}

#[test]
fn a_host_with_everything_lacks_nothing() {
    let missing: Vec<_> = features(&good()).into_iter().filter(|feature| !feature.present).collect();
    assert_eq!(missing, []);
}

#[test]
fn every_missing_feature_says_what_is_lost_and_what_gives_it() {
    for feature in features(&Facts::default()).into_iter().filter(|feature| feature.name != "launcher") {
        assert!(!feature.present, "{feature:?}");
        assert!(
            feature.lost.is_some_and(|text| !text.is_empty()) && feature.remedy.is_some_and(|text| !text.is_empty())
        );
    }
    let facts = Facts { no_launcher: Some("gone".into()), ..good() };
    assert!(remedy(&facts, "launcher").contains("PATH"));
}

#[test]
fn the_switch_that_is_off_is_the_one_named() {
    let refused = || without(good(), &[Probe::UserNamespace, Probe::MountNamespace], Errno::EPERM);
    for (facts, expected) in [
        (Facts { max_user_namespaces: Some(0), ..refused() }, "user.max_user_namespaces=15000"),
        (Facts { userns_clone_off: true, ..refused() }, "kernel.unprivileged_userns_clone=1"),
        (Facts { apparmor_restricts: true, ..refused() }, "kernel.apparmor_restrict_unprivileged_userns=0"),
        (
            Facts { container: Some(Container::Docker), filtered: true, ..refused() },
            "docker run --security-opt seccomp=",
        ),
        (Facts { container: Some(Container::Podman), ..refused() }, "podman run --security-opt seccomp="),
        (Facts { container: Some(Container::Other), ..refused() }, "Kubernetes"),
        (Facts { filtered: true, ..refused() }, "outside the sandbox"),
        (refused(), "CONFIG_USER_NS=y"),
    ] {
        for name in ["user-namespace", "mount-namespace"] {
            assert!(remedy(&facts, name).contains(expected), "{name}: {}", remedy(&facts, name));
        }
    }
}

/// Root is not stopped by what stops ordinary users, and a limit of one kind is named by its kind.
#[test]
fn switches_that_do_not_apply_are_not_named() {
    let refused = || without(good(), &[Probe::UserNamespace, Probe::PidNamespace], Errno::EPERM);
    let root = Facts { euid: 0, userns_clone_off: true, apparmor_restricts: true, ..refused() };
    assert!(remedy(&root, "pid-namespace").contains("CONFIG_USER_NS=y"));
    let one = Facts { no_namespaces_of: vec!["pid"], max_user_namespaces: Some(0), ..refused() };
    assert!(remedy(&one, "pid-namespace").contains("user.max_pid_namespaces=15000"));
    assert!(remedy(&one, "user-namespace").contains("user.max_user_namespaces=15000"));
}

#[test]
fn a_process_limit_is_lost_where_it_is() {
    let of = |facts: &Facts| features(facts).into_iter().find(|feature| feature.name == "pid-max").unwrap();
    let user = of(&Facts { own_pid_max: false, kernel: (6, 1), ..good() });
    assert!(user.lost.unwrap().starts_with("nothing"));
    let root = Facts { own_pid_max: false, kernel: (6, 1), euid: 0, ..good() };
    assert!(of(&root).lost.unwrap().contains("limits") && remedy(&root, "pid-max").contains("6.14"));
    let alone = Facts { own_pid_max: false, sandbox_built: false, ..good() };
    assert!(of(&alone).lost.unwrap().contains("gap: limits"), "without namespaces nothing limits a user either");
}

#[test]
fn audit_is_asked_of_whoever_can_give_it() {
    let denied = || without(good(), &[Probe::Audit], Errno::EPERM);
    assert!(remedy(&denied(), "audit").contains("setcap cap_audit_read+ep"));
    assert!(remedy(&Facts { euid: 0, ..denied() }, "audit").contains("user namespace"));
    assert!(remedy(&without(good(), &[Probe::Audit], Errno::EPROTONOSUPPORT), "audit").contains("CONFIG_AUDIT"));
    assert!(
        remedy(&Facts { container: Some(Container::Docker), ..denied() }, "audit").contains("--cap-add AUDIT_READ")
    );
}

#[test]
fn a_masked_proc_has_a_remedy_for_each_runtime() {
    let failure = SetupFailure { stage: Stage::Proc, errno: Errno::EPERM as i32, path: None };
    for (container, expected) in [
        (Some(Container::Docker), "systempaths=unconfined"),
        (None, "ProtectKernelTunables=no"),
        (Some(Container::Podman), "unmask=ALL"),
        (Some(Container::Other), "procMount=Unmasked"),
    ] {
        let facts = Facts { fresh_proc_refused: Some(failure.clone()), container, ..good() };
        assert!(remedy(&facts, "fresh-proc").contains(expected));
    }
}

#[test]
fn landlock_is_told_apart_by_abi() {
    for abi in 1..=9 {
        let missing: Vec<_> = features(&Facts { landlock_abi: abi, ..good() })
            .into_iter()
            .filter(|feature| !feature.present)
            .map(|feature| feature.name)
            .collect();
        let expected: Vec<_> = ABIS.iter().filter(|entry| entry.0 > abi).map(|entry| entry.1).collect();
        assert_eq!(missing, expected, "ABI {abi}");
    }
    let none = || Facts { landlock_abi: 0, ..without(good(), &[Probe::Landlock], Errno::EOPNOTSUPP) };
    let off = Facts { lsm: Some("lockdown,yama".into()), ..none() };
    assert!(remedy(&off, "landlock").contains("lsm=landlock,lockdown,yama"));
    assert!(remedy(&Facts { kernel: (5, 10), ..none() }, "landlock").contains("5.13"));
    let absent = || Facts { landlock_abi: 0, ..without(good(), &[Probe::Landlock], Errno::ENOSYS) };
    assert!(remedy(&Facts { filtered: true, ..absent() }, "landlock").contains("seccomp"));
    assert!(remedy(&absent(), "landlock").contains("CONFIG_SECURITY_LANDLOCK=y"));
    assert!(remedy(&absent(), "landlock-tcp").contains("Landlock itself"));
}

#[test]
fn cgroups_are_told_apart() {
    for (cgroup, expected) in [
        (Cgroup::NotDelegated("denied".into()), "Delegate=yes"),
        (Cgroup::Version1, "unified_cgroup_hierarchy"),
        (Cgroup::None, "mount -t cgroup2"),
    ] {
        assert!(remedy(&Facts { cgroup, ..good() }, "cgroup").contains(expected));
    }
}

#[test]
fn a_listener_around_us_is_told_from_an_old_kernel() {
    assert!(remedy(&without(good(), &[Probe::Notification], Errno::EBUSY), "seccomp-notification").contains("outside"));
    let none = || without(good(), &[Probe::Notification], Errno::EINVAL);
    assert!(remedy(&Facts { kernel: (5, 4), ..none() }, "seccomp-notification").contains("Linux 5.6"));
    assert!(remedy(&none(), "seccomp-notification").contains("no filter around"));
}
