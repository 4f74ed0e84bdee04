//! Carrying bytes between two connections, both ways, until both have ended.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Shared;

/// The buffer of one direction. Two for each tunnel: 512 tunnels hold 16 MiB.
const BUFFER: usize = 16 * 1024;
/// A direction that has carried this much gets a pipe.
const BULK: u64 = 1024 * 1024;
/// Pipes at once; a direction that gets none goes on copying.
pub(super) const MAX_PIPES: usize = 32;
/// Capacity asked of a pipe. The kernel may give less, which costs speed only.
const PIPE: usize = 1024 * 1024;

/// Carries `first` and then everything between the two, an end in one direction as an end. Returns when both directions
/// have ended, one has failed, or nothing moved for the idle time.
pub(super) async fn relay(client: TcpStream, upstream: TcpStream, first: &[u8], shared: &Shared) -> io::Result<()> {
    let activity = Activity::default();
    let up = async {
        write_all(&upstream, first).await?;
        pump(&client, &upstream, &activity, &shared.pipes).await
    };
    let down = pump(&upstream, &client, &activity, &shared.pipes);
    let both = async { tokio::try_join!(up, down) };
    tokio::select! {
        ended = both => ended.map(|_| ()),
        () = activity.idle_for(shared.limits.idle, shared.limits.half_closed_idle) => Ok(()),
    }
}

/// One direction: by copying at first, through a pipe once it is clear that much will come.
async fn pump(from: &TcpStream, to: &TcpStream, activity: &Activity, pipes: &Semaphore) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut carried = 0;
    loop {
        if carried >= BULK
            && let Ok(permit) = pipes.try_acquire()
            && let Some(pipe) = Pipe::new(permit)
        {
            drop(buffer);
            splice_all(from, to, &pipe, activity).await?;
            break;
        }
        from.readable().await?;
        match from.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                activity.note();
                write_all(to, &buffer[..read]).await?;
                activity.note();
                carried = carried.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    activity.half_close();
    match shutdown(to.as_raw_fd(), Shutdown::Write) {
        // The other side is gone already: there is nobody left to tell.
        Ok(()) | Err(nix::Error::ENOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The bytes stay in the kernel: half the copies, which on two processors is the difference between half and nearly all
/// of the speed of a direct connection.
async fn splice_all(from: &TcpStream, to: &TcpStream, pipe: &Pipe<'_>, activity: &Activity) -> io::Result<()> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        // The pipe is empty here, so "would block" can only mean that the socket has nothing.
        let mut held = from
            .async_io(Interest::READABLE, || Ok(splice(from.as_fd(), None, pipe.input.as_fd(), None, PIPE, flags)?))
            .await?;
        if held == 0 {
            return Ok(());
        }
        activity.note();
        while held > 0 {
            let moved = to
                .async_io(Interest::WRITABLE, || Ok(splice(pipe.output.as_fd(), None, to.as_fd(), None, held, flags)?))
                .await?;
            if moved == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            held -= moved;
            activity.note();
        }
    }
}

struct Pipe<'s> {
    output: OwnedFd,
    input: OwnedFd,
    _permit: SemaphorePermit<'s>,
}

impl<'s> Pipe<'s> {
    /// `None` when there are no descriptors left: the tunnel then goes on without.
    fn new(permit: SemaphorePermit<'s>) -> Option<Self> {
        let (output, input) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
        if let Err(error) = fcntl(&input, FcntlArg::F_SETPIPE_SZ(i32::try_from(PIPE).unwrap_or(i32::MAX))) {
            tracing::debug!(%error, "a tunnel's pipe keeps its default size");
        }
        Some(Self { output, input, _permit: permit })
    }
}

/// When something last moved.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Moments>);

#[derive(Debug)]
struct Moments {
    start: Instant,
    last_ms: AtomicU64,
    half_closed: AtomicBool,
}

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Moments {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            half_closed: AtomicBool::new(false),
        }))
    }
}

impl Activity {
    fn note(&self) {
        let now = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_ms.store(now, Ordering::Relaxed);
    }

    fn half_close(&self) {
        self.note();
        self.0.half_closed.store(true, Ordering::Relaxed);
    }

    /// Ends when nothing has moved for `idle`, or for `half_closed` once one side has finished.
    pub(super) async fn idle_for(&self, idle: Duration, half_closed: Duration) {
        loop {
            let half = self.0.half_closed.load(Ordering::Relaxed);
            let limit = if half { half_closed } else { idle };
            let last = self.0.start + Duration::from_millis(self.0.last_ms.load(Ordering::Relaxed));
            let now = Instant::now();
            if now >= last + limit {
                return;
            }
            // A tunnel that becomes half-closed while this sleeps is looked at again in time.
            tokio::time::sleep_until((last + limit).min(now + half_closed)).await;
        }
    }
}

/// A stream that notes when something moves.
pub(super) struct Watched<S> {
    stream: S,
    activity: Activity,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }

    fn seen<T>(&self, poll: Poll<T>) -> Poll<T> {
        if poll.is_ready() {
            self.activity.note();
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        if matches!(poll, Poll::Ready(Ok(()))) && buf.filled().len() == before {
            self.activity.half_close();
        }
        self.seen(poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.seen(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
