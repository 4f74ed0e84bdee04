//! Relaying a terminal inside the sandbox to the caller's own, which the command never touches.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use stockade::executor::{ExecSpec, RunResult};
use stockade::output::TerminalFilter;
use stockade::sandboxed::{PtyProcess, SandboxedExecutor};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

use super::exit::Failure;
use super::guard::Guard;
use super::raw::{self, Raw};
use super::run::{TIMED_OUT, status_of};

/// How long the command may take to obey a hang-up.
const HANG_UP: Duration = Duration::from_secs(5);

/// Ctrl-D: what a terminal sends at the end of input.
const END_OF_INPUT: u8 = 4;
/// How often it is said again.
const AGAIN: Duration = Duration::from_millis(100);

/// Why the session ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Itself,
    Timeout,
    Signal(Signal),
}

/// Runs a command on a terminal inside the sandbox and relays it to ours. Where `stdio` has a descriptor, the command gets
/// that in place of the terminal.
pub(crate) async fn session(
    executor: &SandboxedExecutor,
    spec: ExecSpec,
    stdio: [Option<OwnedFd>; 3],
    timeout_ms: Option<u64>,
) -> Result<(RunResult, End), Failure> {
    let mut signals = Signals::new()?;
    let types = stdio[0].is_none() && raw::is_ours();
    // It starts while the sandbox is built.
    let guard = if types { Guard::start(&io::stdin()) } else { None };
    let pty = Arc::new(executor.start_pty_beside(spec, raw::size().unwrap_or_default(), stdio).await?);
    // From here on the terminal is raw; it is given back however this function is left.
    let mut terminal = if types { Raw::enter(guard) } else { Raw::none() };
    let mut screen = Screen { filter: TerminalFilter::new(), broken: false };
    let typing = if types { Some(tokio::spawn(type_into(Arc::clone(&pty), input()?))) } else { None };
    let limit = timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
    let end = follow(&pty, &mut screen, &mut signals, &mut terminal, limit).await;
    if let Some(typing) = typing {
        typing.abort();
    }
    if !matches!(end, Ok(End::Itself)) {
        hang_up(&pty, &mut screen).await;
    }
    screen.reset();
    terminal.leave();
    let result = pty.done().await?;
    Ok((result, end?))
}

/// Shows what the command writes until it ends, and passes on what happens meanwhile.
async fn follow(
    pty: &PtyProcess,
    screen: &mut Screen,
    signals: &mut Signals,
    terminal: &mut Raw,
    limit: Option<Duration>,
) -> Result<End, Failure> {
    let timeout = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(timeout);
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut open = true;
    loop {
        tokio::select! {
            read = pty.read(&mut buffer), if open => {
                let length = read.map_err(|error| Failure::cannot(format!("the terminal cannot be read: {error}")))?;
                screen.show(&buffer[..length]);
                terminal.remember(&screen.filter.reset());
                open = length > 0;
            }
            done = pty.done() => {
                // What it wrote last is still in the terminal.
                while open {
                    let read = tokio::time::timeout(Duration::from_millis(200), pty.read(&mut buffer)).await;
                    let length = read.map_or(0, |read| read.unwrap_or(0));
                    screen.show(&buffer[..length]);
                    open = length > 0;
                }
                return done.map(|_| End::Itself).map_err(Failure::from);
            }
            () = &mut timeout => return Ok(End::Timeout),
            signal = signals.next() => match signal {
                Signal::SIGWINCH => resize(pty),
                Signal::SIGTSTP => {
                    terminal.leave();
                    // Stopped here until somebody continues us.
                    raise(Signal::SIGSTOP).map_err(|errno| Failure::cannot(format!("cannot stop: {errno}")))?;
                    *terminal = Raw::enter(Guard::start(&io::stdin()));
                    terminal.remember(&screen.filter.reset());
                    resize(pty);
                }
                Signal::SIGCONT => {
                    terminal.apply();
                    resize(pty);
                }
                ending => return Ok(End::Signal(ending)),
            },
        }
    }
}

fn resize(pty: &PtyProcess) {
    if let Some(size) = raw::size()
        && let Err(error) = pty.resize(size)
    {
        tracing::debug!(%error, "the terminal inside keeps its size");
    }
}

/// Ends the command while its output goes on being read, without which it could not end.
async fn hang_up(pty: &PtyProcess, screen: &mut Screen) {
    let mut buffer = vec![0_u8; 64 * 1024];
    let ended = async {
        let kill = pty.kill();
        tokio::pin!(kill);
        loop {
            tokio::select! {
                _ = &mut kill => return,
                read = pty.read(&mut buffer) => match read {
                    Ok(length @ 1..) => screen.show(&buffer[..length]),
                    Ok(_) | Err(_) => { kill.await; return }
                }
            }
        }
    };
    if tokio::time::timeout(HANG_UP, ended).await.is_err() {
        tracing::warn!("the command did not obey the hang-up; disposal ends it");
    }
}

/// What the person sees.
struct Screen {
    filter: TerminalFilter,
    broken: bool,
}

impl Screen {
    fn show(&mut self, bytes: &[u8]) {
        let shown = self.filter.filter(bytes);
        self.write(&shown);
    }

    /// Undoes the modes that a program left set.
    fn reset(&mut self) {
        let reset = self.filter.reset();
        if io::stdout().is_terminal() || io::stderr().is_terminal() {
            self.write(&reset);
        }
    }

    /// A screen that is gone is not written to again; the command is told by its hang-up.
    fn write(&mut self, bytes: &[u8]) {
        if !self.broken {
            // The terminal is whichever of the two is one; a shell without any writes to standard output.
            self.broken = if !io::stdout().is_terminal() && io::stderr().is_terminal() {
                io::stderr().lock().write_all(bytes).is_err()
            } else {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush()).is_err()
            };
        }
    }
}

/// What is typed, in pieces. Standard input has no readiness that works for every kind of file, so a thread reads it; it
/// ends with the process.
fn input() -> Result<Receiver<Vec<u8>>, Failure> {
    let (sender, receiver) = channel(16);
    let read = move || {
        let mut buffer = [0_u8; 4096];
        let mut stdin = io::stdin();
        loop {
            match stdin.read(&mut buffer) {
                Ok(length @ 1..) if sender.blocking_send(buffer[..length].to_vec()).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    };
    let thread = std::thread::Builder::new().name("input".to_owned()).spawn(read);
    thread.map_err(|error| Failure::cannot(format!("standard input cannot be read: {error}")))?;
    Ok(receiver)
}

async fn type_into(pty: Arc<PtyProcess>, mut input: Receiver<Vec<u8>>) {
    while let Some(bytes) = input.recv().await {
        if pty.write(&bytes).await.is_err() {
            return;
        }
    }
    // The end of a pipe or file is what Ctrl-D is to a terminal, but it lasts: a key typed while the command changes the
    // terminal's settings is lost.
    while pty.write(&[END_OF_INPUT]).await.is_ok() {
        tokio::time::sleep(AGAIN).await;
    }
}

/// Signals that concern the terminal, and those that end us.
struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    fn new() -> Result<Self, Failure> {
        let heard = [
            Signal::SIGWINCH,
            Signal::SIGTSTP,
            Signal::SIGCONT,
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ];
        let listen = |number: Signal| {
            let stream = signal(SignalKind::from_raw(number as i32));
            stream
                .map(|stream| (number, stream))
                .map_err(|e| Failure::cannot(format!("{number} cannot be handled: {e}")))
        };
        heard.into_iter().map(listen).collect::<Result<_, _>>().map(Self)
    }

    async fn next(&mut self) -> Signal {
        let poll = |context: &mut std::task::Context<'_>| {
            for (number, stream) in &mut self.0 {
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        };
        std::future::poll_fn(poll).await
    }
}

impl End {
    /// The exit status that tells of it.
    pub(crate) fn status(self, result: &RunResult) -> ExitCode {
        match self {
            Self::Itself => status_of(result),
            Self::Timeout => ExitCode::from(TIMED_OUT),
            Self::Signal(signal) => ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(1)),
        }
    }
}
