//! No descriptors, no memory, no processes.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use stockade::executor::{BashExecutor as _, ExecRequest};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run};
use crate::pids::PidsGroup;
use crate::traces::{MARK, Token, eventually, tree};
use crate::user::{Programs, User, scratch};
use crate::{BACKENDS, Claim, block_on};

/// The host has room for no more than so many descriptors: each run works, or fails as one that did not run.
#[test]
fn no_descriptors_in_the_host() {
    as_every_user("shortage::no_descriptors_in_the_host_inside");
}

#[test]
#[ignore = "run by no_descriptors_in_the_host as each user, in a process of its own"]
fn no_descriptors_in_the_host_inside() {
    block_on(async {
        let (mut failed, mut worked) = (0, 0);
        for backend in BACKENDS {
            // With a launcher that is there, and with one that has to be started first.
            for warm in [true, false] {
                let place = Place::new();
                let token = Token::of(place.root());
                let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                    config.backend = backend;
                    token.mark_launcher(&place, config);
                });
                if warm {
                    run(&executor, token.mark(ExecRequest::shell("true"))).await.unwrap();
                }
                let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
                for room in 0..20 {
                    let title = format!("{backend:?}, room for {room} descriptors, warm: {warm}");
                    setrlimit(Resource::RLIMIT_NOFILE, limit_with_room(room), hard).unwrap();
                    let request = token.mark(ExecRequest::shell("echo ran >ran; echo said"));
                    let outcome =
                        tokio::time::timeout(std::time::Duration::from_secs(40), run(&executor, request)).await;
                    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
                    let outcome = outcome.unwrap_or_else(|_| panic!("{title}: it hangs"));
                    let ran = fs::remove_file(place.work().join("ran")).is_ok();
                    match Claim::of(&title, &outcome) {
                        Claim::Ran => {
                            assert_eq!(outcome.unwrap().stdout.text, "said\n", "{title}");
                            worked += 1;
                        }
                        Claim::DidNot => {
                            assert!(!ran, "{title}: it ran: {outcome:?}");
                            failed += 1;
                        }
                        Claim::Unknown => failed += 1,
                    }
                }
                let after = run(&executor, token.mark(ExecRequest::shell("echo again"))).await.unwrap();
                assert_eq!(after.stdout.text, "again\n", "{backend:?}");
                executor.dispose().await;
                token.assert_gone("disposal");
                assert_eq!(tree(&place.work()), Vec::<PathBuf>::new());
                // A directory cannot be removed without a descriptor: what is left is the next executor's to sweep.
                let next = place.executor(SandboxMode::ReadOnly, backend);
                run(&next, ExecRequest::shell("true")).await.unwrap();
                eventually("the next executor has swept", || {
                    !tree(&place.state()).iter().any(|path| path.ends_with("tmp"))
                })
                .await;
                next.dispose().await;
                assert_eq!(tree(&place.state()), Vec::<PathBuf>::new(), "{backend:?}, warm: {warm}");
            }
        }
        println!("\nfigure: of the runs short of descriptors {failed} failed and {worked} worked");
        assert!(failed > 20 && worked > 20, "{failed} failed, {worked} worked");
    });
}

/// The limit under which just so many numbers are free: descriptors are given from the lowest on.
fn limit_with_room(room: usize) -> u64 {
    let names = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let open: Vec<u64> = names
        .filter(|name| fs::read_link(Path::new("/proc/self/fd").join(name)).is_ok())
        .map(|name| name.to_str().unwrap().parse().unwrap())
        .collect();
    (0..).filter(|number| !open.contains(number)).nth(room).unwrap()
}

/// A shortage for all of a `stockade run`, the command included.
#[derive(Debug)]
pub(crate) enum Limit<'a> {
    /// As an option of `prlimit`.
    Resource(String),
    /// So many processes and threads in this group, the program itself among them.
    Pids(&'a PidsGroup, u64),
}

impl Limit<'_> {
    /// What becomes the program, under the limit and as the user.
    fn command(&self, user: User, program: &Path) -> Command {
        match self {
            Self::Resource(option) => {
                let mut command = user.command("prlimit");
                command.arg(option).arg("--").arg(program);
                command
            }
            Self::Pids(group, most) => {
                group.allow(*most);
                group.within(&user.command(program))
            }
        }
    }

    /// Memory that is missing may end a program by a signal: an allocation that fails, a program that cannot be mapped.
    fn may_kill(&self) -> bool {
        matches!(self, Self::Resource(option) if option.starts_with("--as") || option.starts_with("--data"))
    }
}

/// `stockade run` where something is short.
pub(crate) struct Short {
    place: tempfile::TempDir,
    user: User,
    program: PathBuf,
    token: Token,
}

impl Short {
    pub(crate) fn new(user: User) -> Self {
        let place = scratch();
        let token = Token::of(place.path());
        for name in ["work", "state"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let program = place.path().join(token.program_name());
        let stockade = &Programs::get().stockade;
        fs::hard_link(stockade, &program).or_else(|_| fs::copy(stockade, &program).map(drop)).unwrap();
        user.own(&place.path().join("work"));
        user.own(&place.path().join("state"));
        Self { place, user, program, token }
    }

    fn run(&self, limit: &Limit<'_>, backend: &str) -> (Output, bool) {
        let output = limit
            .command(self.user, &self.program)
            .args(["run", "--mode", "workspace-write", "--backend", backend, "-c", "echo ran >ran; echo said"])
            .current_dir(self.place.path().join("work"))
            .env(MARK, &self.token.0)
            .env("TMPDIR", self.place.path().join("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        self.token.assert_gone(&format!("{limit:?}"));
        let ran = fs::remove_file(self.place.path().join("work/ran")).is_ok();
        assert_eq!(tree(&self.place.path().join("work")).len(), 0, "{limit:?}, {backend}");
        (output, ran)
    }

    /// How many of the runs worked, and how many did not.
    pub(crate) fn all<'a>(&self, limits: impl Iterator<Item = Limit<'a>>) -> (usize, usize) {
        let (mut worked, mut failed) = (0, 0);
        for limit in limits {
            for backend in ["namespaces", "landlock"] {
                let (output, ran) = self.run(&limit, backend);
                let stderr = String::from_utf8_lossy(&output.stderr);
                let title = format!("{}: {limit:?}, {backend}: {:?}: {stderr}", self.user.name(), output.status);
                match output.status.code() {
                    Some(0) => {
                        assert!(ran && output.stdout == b"said\n", "{title}");
                        worked += 1;
                        continue;
                    }
                    // It could not be run, and says so.
                    Some(125) => assert!(stderr.contains("stockade: "), "{title}"),
                    // Bash ran and was short itself.
                    Some(1 | 2 | 126 | 127 | 254) => assert!(!stderr.contains("panicked"), "{title}"),
                    Some(_) => panic!("{title}"),
                    None if limit.may_kill() => {
                        assert!(matches!(output.status.signal(), Some(6 | 9 | 11)), "{title}");
                    }
                    None => panic!("{title}"),
                }
                failed += 1;
                println!("{title}");
            }
        }
        (worked, failed)
    }
}

#[test]
fn no_descriptors_anywhere() {
    for user in User::all() {
        let short = Short::new(user);
        let (worked, failed) =
            short.all((4..64).step_by(3).map(|limit| Limit::Resource(format!("--nofile={limit}:{limit}"))));
        assert!(worked > 4 && failed > 4, "{}: {worked} worked, {failed} failed", user.name());
    }
}

#[test]
fn no_memory() {
    for user in User::all() {
        let short = Short::new(user);
        let mega = |name: &str, limit: u32| Limit::Resource(format!("--{name}={0}:{0}", limit * (1 << 20)));
        let spaces = [10, 20, 30, 50, 80, 120, 200, 400, 1000].map(|limit| mega("as", limit));
        let data = [1, 2, 4, 8, 16, 24, 32, 64, 200].map(|limit| mega("data", limit));
        let (worked, failed) = short.all(spaces.into_iter().chain(data));
        assert!(worked > 4 && failed > 4, "{}: {worked} worked, {failed} failed", user.name());
    }
}

/// An ordinary user's processes are counted; root's are not.
#[test]
fn no_processes() {
    // A user of its own, whose processes nobody else adds to.
    let user = if User::current().is_root() { User { uid: 1577, gid: 1577 } } else { User::current() };
    let short = Short::new(user);
    // Zombies of earlier runs count too, where nobody collects them: so some limits are generous.
    let limits = (1..24).chain([100, 500, 1000, 2000]);
    let (worked, failed) = short.all(limits.map(|limit| Limit::Resource(format!("--nproc={limit}:{limit}"))));
    assert!(worked > 4 && failed > 4, "{worked} worked, {failed} failed");
}

/// The same launcher, when what it was short of is there again.
#[test]
fn a_launcher_survives_a_shortage_of_processes() {
    as_every_user("shortage::a_launcher_survives_a_shortage_of_processes_inside");
}

#[test]
#[ignore = "run by a_launcher_survives_a_shortage_of_processes as each user"]
fn a_launcher_survives_a_shortage_of_processes_inside() {
    if nix::unistd::geteuid().is_root() {
        println!("\nfigure: root's processes are not counted: tried as an ordinary user");
        return;
    }
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let token = Token::of(place.root());
            let executor = place.executor_with(SandboxMode::WorkspaceWrite, |config| {
                config.backend = backend;
                token.mark_launcher(&place, config);
            });
            run(&executor, token.mark(ExecRequest::shell("true"))).await.unwrap();
            let pid = token.launcher_process().pid.to_string();
            let limit = |value: u64| {
                let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nproc={value}:")]).status().unwrap();
                assert!(set.success());
            };
            limit(1);
            // What was built ahead is still to be had.
            for number in 0..8 {
                let outcome = run(&executor, token.mark(ExecRequest::shell("echo ran >ran"))).await;
                let ran = fs::remove_file(place.work().join("ran")).is_ok();
                let claim = Claim::of("no processes", &outcome);
                assert_eq!(claim == Claim::Ran, ran, "{backend:?}: {outcome:?}");
                assert!(claim == Claim::DidNot || number < 5, "{backend:?} {number}: {outcome:?}");
            }
            limit(getrlimit(Resource::RLIMIT_NPROC).unwrap().0);
            let after = run(&executor, token.mark(ExecRequest::shell("echo again"))).await.unwrap();
            assert_eq!(after.stdout.text, "again\n", "{backend:?}");
            executor.dispose().await;
            token.assert_gone("disposal");
        }
    });
}
