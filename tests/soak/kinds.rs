//! The kinds of runs, and who does them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade::denial::Grant;
use stockade::executor::{
    BashExecutor as _, BashProcess, CallPolicy, CommandLine, ExecError, ExecRequest, RunResult, Stdin, Timeout,
};
use stockade::policy::SandboxMode;
use stockade::sandboxed::{SandboxedExecutor, TerminalSize};
use tokio_util::sync::CancellationToken;

use crate::executor::{Place, run};
use crate::traces::Token;

/// What a run is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Succeeds,
    Fails,
    DiesOfASignal,
    LeavesADaemon,
    Spills,
    IsRefused,
    NotFound,
    NoWorkdir,
    ReadsInput,
    IgnoresInput,
    TimesOut,
    TimesOutDeaf,
    IsCancelled,
    WasCancelled,
    IsDropped,
    EndsInTheBackground,
    IsKilledInTheBackground,
    IsLeftInTheBackground,
    IsTypedTo,
    HasATerminal,
    HasAnAllowlist,
    ForksMuch,
}

const KINDS: [Kind; 22] = [
    Kind::Succeeds,
    Kind::Fails,
    Kind::DiesOfASignal,
    Kind::LeavesADaemon,
    Kind::Spills,
    Kind::IsRefused,
    Kind::NotFound,
    Kind::NoWorkdir,
    Kind::ReadsInput,
    Kind::IgnoresInput,
    Kind::TimesOut,
    Kind::TimesOutDeaf,
    Kind::IsCancelled,
    Kind::WasCancelled,
    Kind::IsDropped,
    Kind::EndsInTheBackground,
    Kind::IsKilledInTheBackground,
    Kind::IsLeftInTheBackground,
    Kind::IsTypedTo,
    Kind::HasATerminal,
    Kind::HasAnAllowlist,
    Kind::ForksMuch,
];

const MODES: [SandboxMode; 3] = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess];

/// How many runs there were of each kind and mode, and how many were ended from outside before they could end.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    runs: BTreeMap<(Kind, &'static str), usize>,
    timed_out: usize,
    aborted: usize,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runs, timed_out, aborted } = self;
        let (each, all) = (runs.values().min(), runs.values().sum::<usize>());
        write!(
            f,
            "{all} runs of {} kinds, at least {each:?} of each, {timed_out} timed out, {aborted} aborted",
            runs.len()
        )
    }
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, count) in &other.runs {
            *self.runs.entry(*kind).or_default() += count;
        }
        self.timed_out += other.timed_out;
        self.aborted += other.aborted;
    }

    /// The control: every kind was there in every mode, and the time-outs and cancellations met something.
    pub(crate) fn assert_all_kinds(&self) {
        assert_eq!(self.runs.len(), KINDS.len() * MODES.len(), "{self:?}");
        assert!(self.timed_out > 0 && self.aborted > 0, "{self:?}");
    }
}

/// One of those who run commands, one after another.
pub(crate) struct Hand {
    executors: [Arc<SandboxedExecutor>; 2],
    work: PathBuf,
    token: Token,
    /// Background commands that nobody has waited for yet.
    left: Vec<Arc<dyn BashProcess>>,
    counts: Counts,
    number: usize,
}

impl Hand {
    pub(crate) fn new(number: usize, executors: [Arc<SandboxedExecutor>; 2], place: &Place, token: Token) -> Self {
        Self { executors, work: place.work(), token, left: Vec::new(), counts: Counts::default(), number }
    }

    /// Waits for what was left to itself.
    pub(crate) async fn finish(mut self) -> Counts {
        for process in self.left.drain(..) {
            assert_eq!(process.done().await.unwrap().exit_code, Some(0));
        }
        self.counts
    }

    /// The run of a number: kind, mode and backend go through all combinations.
    pub(crate) async fn one(&mut self, number: usize) {
        let kind = KINDS[number % KINDS.len()];
        let round = number / KINDS.len();
        let mode = MODES[round % MODES.len()];
        let landlock = round / MODES.len() % 2 == 1;
        let executor = Arc::clone(&self.executors[usize::from(landlock)]);
        *self.counts.runs.entry((kind, mode.as_str())).or_default() += 1;
        let result = self.perform(kind, mode, landlock, &executor).await;
        if let Some(result) = result {
            self.counts.timed_out += usize::from(result.timed_out);
            self.counts.aborted += usize::from(result.aborted);
        }
    }

    fn request(&self, mode: SandboxMode, command: &str) -> ExecRequest {
        let policy = CallPolicy {
            mode,
            workspace: self.work.clone(),
            extra: Grant::default(),
            session: random().is_multiple_of(2).then(|| "one".to_owned()),
        };
        ExecRequest { policy: Some(policy), ..self.token.mark(ExecRequest::shell(command)) }
    }

    async fn perform(
        &mut self,
        kind: Kind,
        mode: SandboxMode,
        landlock: bool,
        executor: &SandboxedExecutor,
    ) -> Option<RunResult> {
        let soon = Duration::from_micros(random() % 40_000);
        let confined = mode != SandboxMode::DangerFullAccess;
        match kind {
            Kind::TimesOut | Kind::TimesOutDeaf | Kind::IsCancelled | Kind::WasCancelled | Kind::IsDropped => {
                return self.end_from_outside(kind, mode, executor, soon).await;
            }
            Kind::EndsInTheBackground
            | Kind::IsKilledInTheBackground
            | Kind::IsLeftInTheBackground
            | Kind::IsTypedTo
            | Kind::HasATerminal => return self.background(kind, mode, executor).await,
            _ => {}
        }
        let command = match kind {
            Kind::Succeeds | Kind::NoWorkdir | Kind::HasAnAllowlist => "echo said".to_owned(),
            Kind::Fails => "exit 3".to_owned(),
            Kind::DiesOfASignal => "kill -TERM $$".to_owned(),
            Kind::LeavesADaemon => "setsid sleep 1000 >/dev/null 2>&1 & echo said".to_owned(),
            Kind::Spills => "head -c 200000 /dev/zero".to_owned(),
            Kind::IsRefused => "echo said; touch /usr/new-of-soak; rm -f /usr/new-of-soak".to_owned(),
            Kind::ReadsInput => "wc -c".to_owned(),
            Kind::ForksMuch => {
                "for i in {1..20}; do (:); done; seq 9 | sort -r | tail -1; mkdir d-$$; rmdir d-$$".to_owned()
            }
            _ => ":".to_owned(),
        };
        let mut request = self.request(mode, &command);
        match kind {
            // Unconfined and as root this would write: only looked at then.
            Kind::IsRefused if !confined => request = self.request(mode, "echo said; test -d /usr"),
            Kind::ForksMuch if mode == SandboxMode::ReadOnly => {
                request = self.request(mode, "for i in {1..20}; do (:); done; echo 1")
            }
            Kind::NotFound => request.command = CommandLine::Program(vec!["no-such-program".into()]),
            Kind::NoWorkdir => request.workdir = Some("/nowhere".into()),
            Kind::ReadsInput | Kind::IgnoresInput => request.stdin = Stdin::Bytes(vec![b'x'; 300_000]),
            Kind::HasAnAllowlist => {
                request.policy.as_mut().unwrap().extra.network = vec!["host.invalid:443".to_owned()];
            }
            _ => {}
        }
        let outcome = run(executor, request).await;
        let title = format!("{kind:?}, {mode}, landlock: {landlock}");
        let result = match (kind, outcome) {
            (Kind::NotFound, Err(ExecError::NotFound { .. })) | (Kind::NoWorkdir, Err(ExecError::Workdir { .. })) => {
                return None;
            }
            // Nothing leads a single host through the machine's own network.
            (Kind::HasAnAllowlist, Err(ExecError::SandboxUnavailable { .. })) if landlock && confined => return None,
            (Kind::NotFound | Kind::NoWorkdir, outcome) => panic!("{title}: {outcome:?}"),
            (_, outcome) => outcome.unwrap_or_else(|error| panic!("{title}: {error:?}")),
        };
        let sandbox = result.sandbox.as_ref().unwrap();
        assert_eq!(sandbox.denied, kind == Kind::IsRefused && confined, "{title}: {result:?}");
        let (code, text) = match kind {
            Kind::Fails => (Some(3), String::new()),
            Kind::DiesOfASignal => (None, String::new()),
            Kind::Spills => (Some(0), "\0".repeat(result.stdout.text.len())),
            Kind::ReadsInput => (Some(0), "300000\n".to_owned()),
            Kind::IgnoresInput => (Some(0), String::new()),
            Kind::ForksMuch => (Some(0), "1\n".to_owned()),
            _ => (Some(0), "said\n".to_owned()),
        };
        assert_eq!((result.exit_code, &result.stdout.text), (code, &text), "{title}: {result:?}");
        assert_eq!(result.stdout.spill_path.is_some(), kind == Kind::Spills, "{title}");
        if let Some(spill) = &result.stdout.spill_path {
            assert_eq!(std::fs::metadata(spill).unwrap().len(), 200_000, "{title}");
            std::fs::remove_file(spill).unwrap();
        }
        Some(result)
    }

    async fn end_from_outside(
        &mut self,
        kind: Kind,
        mode: SandboxMode,
        executor: &SandboxedExecutor,
        soon: Duration,
    ) -> Option<RunResult> {
        let deaf = kind == Kind::TimesOutDeaf;
        let command = if deaf {
            "trap '' TERM; setsid sleep 1000 & while :; do sleep 1000; done"
        } else {
            "sleep 1000 & sleep 1000"
        };
        let mut request = self.request(mode, command);
        let cancel = CancellationToken::new();
        match kind {
            Kind::TimesOut | Kind::TimesOutDeaf => request.timeout = Timeout::After(soon + Duration::from_millis(1)),
            Kind::IsCancelled | Kind::WasCancelled => request.cancel = Some(cancel.clone()),
            _ => {}
        }
        if kind == Kind::WasCancelled {
            cancel.cancel();
            let error = run(executor, request).await.unwrap_err();
            assert!(matches!(error, ExecError::AlreadyCancelled), "{error:?}");
            return None;
        }
        if kind == Kind::IsDropped {
            assert!(tokio::time::timeout(soon, run(executor, request)).await.is_err(), "it runs for ever");
            return None;
        }
        let cancelling = async {
            tokio::time::sleep(soon).await;
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(run(executor, request), cancelling);
        if kind == Kind::IsCancelled && matches!(result, Err(ExecError::AlreadyCancelled)) {
            return None;
        }
        let result = result.unwrap();
        assert_eq!(
            (result.timed_out, result.aborted),
            (kind != Kind::IsCancelled, kind == Kind::IsCancelled),
            "{result:?}"
        );
        Some(result)
    }

    async fn background(&mut self, kind: Kind, mode: SandboxMode, executor: &SandboxedExecutor) -> Option<RunResult> {
        if kind == Kind::HasATerminal {
            let spec = executor.resolve(self.request(mode, "read line; echo \"got $line\"; test -t 1")).unwrap();
            let terminal = executor.start_pty(spec, TerminalSize::default()).await.unwrap();
            terminal.write(b"typed\n").await.unwrap();
            let (mut shown, mut buffer) = (Vec::new(), [0; 1000]);
            while let read @ 1.. = terminal.read(&mut buffer).await.unwrap() {
                shown.extend_from_slice(&buffer[..read]);
            }
            let result = terminal.done().await.unwrap();
            assert!(String::from_utf8_lossy(&shown).contains("got typed"), "{shown:?}");
            assert_eq!(result.exit_code, Some(0));
            return Some(result);
        }
        let command = match kind {
            Kind::EndsInTheBackground => "echo one; echo two >&2; sleep 0.01; exit 0",
            Kind::IsKilledInTheBackground => "echo up; setsid sleep 1000 & sleep 1000",
            Kind::IsTypedTo => "read line; echo \"got $line\"; cat",
            _ => "sleep 0.03",
        };
        let mut request = self.request(mode, command);
        request.owner = Some(format!("hand-{}", self.number));
        if kind == Kind::IsTypedTo {
            request.stdin = Stdin::Open;
        }
        let process = executor.start(executor.resolve(request).unwrap()).await.unwrap();
        match kind {
            Kind::IsLeftInTheBackground => {
                self.left.push(process);
                if self.left.len() > 5 {
                    assert_eq!(self.left.remove(0).done().await.unwrap().exit_code, Some(0));
                }
                return None;
            }
            Kind::IsKilledInTheBackground => assert!(process.kill().await),
            Kind::IsTypedTo => {
                process.write_input(b"this\nand that\n").await.unwrap();
                process.close_input().await;
            }
            _ => {}
        }
        let result = process.done().await.unwrap();
        let read = process.read_output();
        match kind {
            Kind::EndsInTheBackground => assert_eq!((read.stdout.as_str(), read.stderr.as_str()), ("one\n", "two\n")),
            Kind::IsTypedTo => assert_eq!(read.stdout, "got this\nand that\n"),
            _ => assert!(result.aborted, "{result:?}"),
        }
        Some(result)
    }
}

/// Random enough to spread moments.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
