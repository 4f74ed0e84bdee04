//! File calls against a real read-only mount: the errno the caller got is the errno the trace foretold, and what
//! succeeds or fails for an ordinary reason is not in the record.

#![allow(clippy::unwrap_used)] // a test that cannot set its scene has failed

mod trace_support;

use stockade::denial::trace::FileBackend;
use stockade::denial::{DenialKind, Target};
use stockade::policy::PathAccess;
use trace_support::{Confinement, Scene, again_as_user, errno, policy, rule};

const WRITE_CREATE: &str = "0101";
const WRITE_TRUNCATE: &str = "01001";

/// A refused call: operation, kind, path beneath the scene, and the same operation where it is allowed.
type Row = (&'static str, DenialKind, &'static str, &'static str);

fn fill(scene: &Scene) {
    for place in ["ro", "ws"] {
        let at = |rest: &str| scene.path(place).join(rest);
        for file in ["file", "file2", "chmod", "chown", "times", "trunc", "gone", "moved", "opened", "attr"] {
            std::fs::write(at(file), "content").unwrap();
        }
        for dir in ["dir", "empty", "full"] {
            std::fs::create_dir(at(dir)).unwrap();
        }
        std::fs::write(at("full/x"), "").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("not-yet", at("dangling")).unwrap();
    }
    std::os::unix::fs::symlink(scene.path("ro"), scene.path("ws/out")).unwrap();
    std::os::unix::fs::symlink(scene.path("ro/through-link"), scene.path("ws/out-file")).unwrap();
    std::os::unix::fs::symlink(scene.path("ws"), scene.path("ro/in")).unwrap();
}

fn check(scene: &Scene, how: &Confinement, rows: &[Row]) {
    let fill_in = |op: &str| op.replace('@', &format!("{}/", scene.base.display()));
    for (operation, kind, path, control) in rows {
        let (results, record) = scene.probe_all(how, &[fill_in(operation), fill_in(control)]);
        let [refused, allowed] = results[..] else { panic!("two results") };
        assert_ne!(refused, 0, "{operation} was not refused");
        assert_eq!(allowed, 0, "{control} failed with {}", errno(allowed));
        let seen: Vec<_> = record.observations.iter().map(|o| (o.kind, o.target.clone(), o.errno.clone())).collect();
        let expected = (*kind, Target::Path(scene.path(path)), Some(errno(refused)));
        assert_eq!(seen, [expected], "{operation}");
        let process = record.observations[0].process.as_ref().unwrap();
        assert_eq!(process.comm, "probe", "{operation}");
        assert_eq!(record.unreadable, 0, "{operation}");
    }
}

fn rows() -> Vec<Row> {
    use DenialKind::{FsCreate, FsMetadata, FsRemove, FsRename, FsTruncate, FsWrite};
    vec![
        ("open|@ro/new|0101", FsCreate, "ro/new", "open|@ws/new|0101"),
        ("open|@ro/new|0301", FsCreate, "ro/new", "open|@ws/new2|0301"),
        ("openraw|@ro/new|0101", FsCreate, "ro/new", "openraw|@ws/new3|0101"),
        ("creat|@ro/new", FsCreate, "ro/new", "creat|@ws/new4"),
        ("creat|@ro/file", FsWrite, "ro/file", "creat|@ws/file"),
        ("open|@ro/file|1", FsWrite, "ro/file", "open|@ws/file|1"),
        ("open|@ro/file|2", FsWrite, "ro/file", "open|@ws/file|2"),
        ("open|@ro/file|01101", FsWrite, "ro/file", "open|@ws/file|01101"),
        ("open|@ro/file|01000", FsTruncate, "ro/file", "open|@ws/file|01000"),
        ("open|@ro/link|1", FsWrite, "ro/file", "open|@ws/link|1"),
        ("open|@ro/dangling|0101", FsCreate, "ro/not-yet", "open|@ws/dangling|0101"),
        ("open|@ro|020200002", FsCreate, "ro", "open|@ws|020200002"),
        ("openin|@ro|new|0101", FsCreate, "ro/new", "openin|@ws|new5|0101"),
        ("open|../ro/dir/../new|0101", FsCreate, "ro/new", "open|../ws/dir/../new6|0101"),
        ("open|out/new|0101", FsCreate, "ro/new", "open|@ro/in/new7|0101"),
        ("open|out-file|0101", FsCreate, "ro/through-link", "open|new8|0101"),
        ("openat2|@ro/new|0101|0", FsCreate, "ro/new", "openat2|@ws/new9|0101|0"),
        ("openat2|@ro/file|1|4", FsWrite, "ro/file", "openat2|@ws/file|1|4"),
        ("openinroot|@ro|/new", FsCreate, "ro/new", "openinroot|@ws|/new10"),
        ("mkdir|@ro/d/", FsCreate, "ro/d", "mkdir|@ws/d/"),
        ("mkfifo|@ro/fifo", FsCreate, "ro/fifo", "mkfifo|@ws/fifo"),
        ("symlink|x|@ro/s", FsCreate, "ro/s", "symlink|x|@ws/s"),
        ("link|@ro/file|@ro/hard", FsCreate, "ro/hard", "link|@ws/file|@ws/hard"),
        ("link|@ro/file|@ws/hard2", FsCreate, "ws/hard2", "link|@ws/file|@ws/hard2"),
        ("unixbind|../ro/sock", FsCreate, "ro/sock", "unixbind|sock"),
        ("unlink|@ro/gone", FsRemove, "ro/gone", "unlink|@ws/gone"),
        ("unlink|@ro/link", FsRemove, "ro/link", "open|@ws/link|1"),
        ("rmdir|@ro/empty", FsRemove, "ro/empty", "rmdir|@ws/empty"),
        ("rename|@ro/moved|@ro/moved2", FsRename, "ro/moved", "rename|@ws/moved|@ws/moved2"),
        ("rename|@ws/file2|@ro/file2", FsRename, "ro/file2", "rename|@ws/file2|@ws/file3"),
        ("rename|@ro/file2|@ws/here", FsRename, "ro/file2", "rename|@ws/file3|@ws/file2"),
        ("renamenr|@ro/moved|@ro/moved2", FsRename, "ro/moved", "renamenr|@ws/moved2|@ws/moved"),
        ("exchange|@ro/file|@ro/file2", FsRename, "ro/file", "exchange|@ws/file|@ws/file2"),
        ("truncate|@ro/trunc", FsTruncate, "ro/trunc", "truncate|@ws/trunc"),
        ("truncate|@ro/link", FsTruncate, "ro/file", "truncate|@ws/link"),
        ("chmod|@ro/chmod", FsMetadata, "ro/chmod", "chmod|@ws/chmod"),
        ("chown|@ro/link", FsMetadata, "ro/file", "chown|@ws/chown"),
        ("lchown|@ro/link", FsMetadata, "ro/link", "lchown|@ws/link"),
        ("utimes|@ro/times", FsMetadata, "ro/times", "utimes|@ws/times"),
        ("utimes|@ro/dir/", FsMetadata, "ro/dir", "utimes|@ws/dir/"),
        ("utimes|../ro/.", FsMetadata, "ro", "utimes|."),
        ("fchmod|@ro/opened", FsMetadata, "ro/opened", "fchmod|@ws/opened"),
        ("futimes|@ro/opened", FsMetadata, "ro/opened", "futimes|@ws/opened"),
        ("setflags|@ro/attr", FsMetadata, "ro/attr", "setflags|@ws/attr"),
        ("setxattr|@ro/attr", FsMetadata, "ro/attr", "setxattr|@ws/attr"),
    ]
}

#[test]
fn every_refused_call_is_recorded_with_the_errno_it_got() {
    let scene = Scene::new();
    fill(&scene);
    check(&scene, &scene.mounts(), &rows());
    assert!(!scene.path("ro/new").exists() && scene.path("ws/new").exists(), "the mounts did not hold");
    again_as_user("every_refused_call_is_recorded_with_the_errno_it_got");
}

#[test]
fn ordinary_failures_are_not_recorded() {
    let scene = Scene::new();
    fill(&scene);
    let operations = [
        "open|@ro/none/new|0101",
        "open|@ro/file/x|0101",
        "open|@ro/file|0301",
        "open|@ro/dir|1",
        "open|@ro/dir|0101",
        "open|@ro/none|1",
        "open|@ro/d/|0101",
        "openat2|@ro/link|1|4",
        "openat2|@ro/new|0101|8",
        "mkdir|@ro/dir",
        "mkdir|@ro/file",
        "mkdir|@ro/.",
        "symlink|x|@ro/dangling",
        "link|@ro/none|@ro/x",
        "link|@ro/dir|@ws/x",
        "unlink|@ro/none",
        "unlink|@ro/dir",
        "rmdir|@ro/file",
        "rmdir|@ro/none",
        "rename|@ro/none|@ro/x",
        "rename|@ws/none|@ro/x",
        "renamenr|@ro/file|@ro/file2",
        "exchange|@ro/file|@ro/none",
        "truncate|@ro/dir",
        "truncate|@ro/none",
        "chmod|@ro/none",
        "chmod|@ro/file/",
        "utimes|@ro/dangling",
    ]
    .map(|op| op.replace('@', &format!("{}/", scene.base.display())));
    let (results, record) = scene.probe_all(&scene.mounts(), &operations);
    for (operation, result) in operations.iter().zip(&results) {
        assert_ne!(*result, 0, "{operation} succeeded");
    }
    assert_eq!(record.observations, [], "{operations:?}");
    assert_eq!(record.unreadable, 0);
    assert!(record.calls >= operations.len() as u64);
}

#[test]
fn devices_pipes_and_own_proc_files_are_not_refused() {
    let scene = Scene::new();
    nix::unistd::mkfifo(&scene.path("ro/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let base = scene.base.display().to_string();
    let operations = [
        "open|/dev/null|01101".to_owned(),
        // Reading and writing at once does not wait for another end.
        format!("open|{base}/ro/fifo|2"),
        "open|/dev/stdout|1".to_owned(),
        "open|/proc/self/fd/1|1".to_owned(),
        "open|/proc/self/comm|1".to_owned(),
        "open|/proc/thread-self/comm|2".to_owned(),
    ];
    let (results, record) = scene.probe_all(&scene.mounts(), &operations);
    assert_eq!(results, [0; 6]);
    assert_eq!(record.observations, []);
}

#[test]
fn links_in_proc_lead_to_the_callers_files() {
    let scene = Scene::new();
    std::fs::write(scene.path("ro/file"), "x").unwrap();
    let script = format!(
        "exec 5<{}/ro/file; exec {} 'open|/dev/fd/5|1' 'open|/proc/self/cwd/new|0101' 'open|/proc/self/cwd/../ro/new|0101'",
        scene.base.display(),
        scene.probe()
    );
    let (output, record) = scene.run(&scene.mounts(), &["sh".into(), "-c".into(), script]);
    assert_eq!(output, format!("{e}\n0\n{e}\n", e = libc_erofs()));
    let seen: Vec<_> = record.observations.iter().map(|o| o.target.clone()).collect();
    assert_eq!(seen, ["ro/file", "ro/new"].map(|p| Target::Path(scene.path(p))));
}

const fn libc_erofs() -> i32 {
    nix::errno::Errno::EROFS as i32
}

#[test]
fn permission_bits_are_foretold_for_a_user() {
    if !again_as_user("permission_bits_are_foretold_for_a_user") {
        let scene = Scene::new();
        std::fs::write(scene.path("ro/mine"), "x").unwrap();
        std::fs::set_permissions(scene.path("ro/mine"), std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
        let mut how = scene.mounts();
        // Without the namespace's own root: its capabilities would override the bits.
        how.setup += "; unset x";
        let command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"].map(str::to_owned);
        let file = scene.path("ro/mine").display().to_string();
        let mut full = command.to_vec();
        full.extend([scene.probe(), format!("open|{file}|1"), format!("open|{file}|{WRITE_TRUNCATE}")]);
        let (output, record) = scene.run(&how, &full);
        let got: Vec<String> = output.lines().map(|line| errno(line.parse().unwrap())).collect();
        assert_eq!(got, ["EACCES", "EROFS"]);
        // One object, one kind, one process: the second is a repetition of the first.
        assert_eq!(record.observations.len(), 1);
        assert_eq!(record.observations[0].errno.as_deref(), Some("EACCES"));
        assert_eq!(record.repeated, 1);
    }
}

#[test]
fn a_pinned_directory_cannot_be_moved_and_says_busy() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("ws/.git/hooks")).unwrap();
    for file in ["config", "lock"] {
        std::fs::write(scene.path("ws/.git").join(file), "").unwrap();
    }
    let base = scene.base.display().to_string();
    let mut how = scene.mounts();
    how.setup = format!(
        "mount --bind {base}/ws {base}/ws && mount --bind {base}/ws/.git {base}/ws/.git && mount --bind {base}/ws/.git/hooks {base}/ws/.git/hooks \
         && mount -o remount,bind,ro {base}/ws/.git/hooks && mount --bind {base}/ws/.git/config {base}/ws/.git/config \
         && mount -o remount,bind,ro {base}/ws/.git/config && cd {base}/ws"
    );
    how.policy = policy(
        &scene.path("ws"),
        vec![
            rule(&scene.path("ws"), PathAccess::Write),
            rule(&scene.path("ws/.git/config"), PathAccess::DenyWrite),
            rule(&scene.path("ws/.git/hooks"), PathAccess::DenyWrite),
        ],
    );
    // With Landlock behind the mounts the answer is the same: it was granted the directory.
    how.files = FileBackend::Mounts { landlock: true };
    check(
        &scene,
        &how,
        &[
            ("rename|@ws/.git|@ws/git2", DenialKind::FsRename, "ws/.git", "mkdir|@ws/.git/refs"),
            (
                "rename|@ws/.git/lock|@ws/.git/config",
                DenialKind::FsRename,
                "ws/.git/config",
                "rename|@ws/.git/lock|@ws/.git/it",
            ),
            ("unlink|@ws/.git/config", DenialKind::FsRemove, "ws/.git/config", "unlink|@ws/.git/it"),
            ("rmdir|@ws/.git/hooks", DenialKind::FsRemove, "ws/.git/hooks", "rmdir|@ws/.git/refs"),
            (
                "open|.git/hooks/pre-commit|0101",
                DenialKind::FsCreate,
                "ws/.git/hooks/pre-commit",
                "open|.git/index|0101",
            ),
        ],
    );
}

#[test]
fn a_new_link_is_never_hidden_by_what_was_remembered() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("ws/d")).unwrap();
    let operations = [
        "open|d/a|0101", // remembered as a real directory
        "unlink|d/a",
        "rmdir|d",
        "symlink|../ro|d",
        "open|d/b|0101", // refused, and seen
        "unlink|d",
        "mkdir|d",
        "open|d/c|0101",
        "rename|d|e",
        "symlink|../ro|f",
        "link|f|d",
        "open|d/d|0101", // refused, through a hard link to a link
        "chdir|e",
        "open|c|1",
        "chdir|../../ro",
        "open|e|0101", // refused, relative to the new directory
    ]
    .map(str::to_owned);
    let (results, record) = scene.probe_all(&scene.mounts(), &operations);
    let refused: Vec<usize> = (0..operations.len()).filter(|&i| results[i] != 0).collect();
    assert_eq!(refused, [4, 11, 15], "{results:?}");
    let seen: Vec<_> = record.observations.iter().map(|o| o.target.clone()).collect();
    assert_eq!(seen, ["ro/b", "ro/d", "ro/e"].map(|p| Target::Path(scene.path(p))));
}

#[test]
fn landlock_alone_is_foretold_as_access_denied_without_metadata() {
    // Without Landlock in force here, nothing is refused; what is checked is what would be said.
    let scene = Scene::new();
    std::fs::write(scene.path("ro/file"), "x").unwrap();
    let mut how = scene.mounts();
    how.setup = "true".into();
    how.files = FileBackend::Landlock;
    let base = scene.base.display();
    let operations =
        [format!("open|{base}/ro/file|1"), format!("chmod|{base}/ro/file"), format!("open|{base}/ws/x|{WRITE_CREATE}")];
    let (results, record) = scene.probe_all(&how, &operations);
    assert_eq!(results, [0; 3]);
    assert_eq!(record.observations.len(), 1);
    assert_eq!(record.observations[0].errno.as_deref(), Some("EACCES"));
    assert_eq!(record.observations[0].kind, DenialKind::FsWrite);
}
