//! Messages as lines of JSON over a pair of streams, with back-pressure: a client that does not read is not read either.

#![forbid(unsafe_code)]

use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, REQUESTS, Refused};
use super::line::{self, LINE_MAX, Line};

/// Lines handed to the writer ahead of time.
const AHEAD: usize = 16;

/// The server's error for a request it has no room for (JSON-RPC's range for implementations).
const BUSY: ErrorCode = ErrorCode(-32000);

struct Outgoing {
    bytes: Vec<u8>,
    done: Option<oneshot::Sender<io::Result<()>>>,
}

/// The transport.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is being dropped.
    discarding: bool,
    /// An error that waits to be written before anything more is read.
    answer: Option<Vec<u8>>,
    /// The lifecycle has begun: before, only requests mean anything.
    begun: bool,
    out: Option<mpsc::Sender<Outgoing>>,
    budget: Arc<Budget>,
    gone: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// Starts the writer. `gone` is cancelled when the input ends or the output fails.
    pub(super) fn new<W>(input: R, output: W, budget: Arc<Budget>, gone: CancellationToken) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, queue) = mpsc::channel(AHEAD);
        tokio::spawn(write_all(output, queue, Arc::clone(&budget), gone.clone()));
        Self {
            input: BufReader::with_capacity(64 << 10, input),
            line: Vec::new(),
            discarding: false,
            answer: None,
            begun: false,
            out: Some(out),
            budget,
            gone,
        }
    }

    /// Reads to the next line break. Cancel-safe: what was read stays in `self.line`. `None` at the end of input;
    /// `Some(false)` for a line that was too long to keep.
    async fn next_line(&mut self) -> io::Result<Option<bool>> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if !self.discarding && self.line.len() + part.len() > LINE_MAX {
                self.discarding = true;
                self.line = Vec::new();
            } else if !self.discarding {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(!std::mem::take(&mut self.discarding)));
            }
        }
    }

    /// Decides what a message counts as; `None` when it goes no further.
    fn take(&mut self, message: RxJsonRpcMessage<RoleServer>, bytes: usize) -> Option<RxJsonRpcMessage<RoleServer>> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if let Err(refused) = self.budget.admit(&request.id, bytes) {
                    self.answer = Some(encode(&refusal(refused, request.id.clone()))?);
                    return None;
                }
                self.begun = self.begun || begins(&request.request);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification {
                    // Its answer will never be sent.
                    cancelled.params.request_id.iter().for_each(|id| self.budget.settle(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let means_something = self.begun || matches!(message, JsonRpcMessage::Request(_));
        means_something.then_some(message)
    }

    /// Writes the error that waits, and waits for a client that reads too slowly. Cancel-safe.
    async fn catch_up(&mut self) -> io::Result<()> {
        let Some(out) = &self.out else { return Err(closed()) };
        self.budget.room().await;
        if self.answer.is_some() {
            let permit = out.reserve().await.map_err(|_| closed())?;
            if let Some(bytes) = self.answer.take() {
                self.budget.queued(bytes.len());
                permit.send(Outgoing { bytes, done: None });
            }
        }
        Ok(())
    }

    async fn next_message(&mut self) -> io::Result<Option<RxJsonRpcMessage<RoleServer>>> {
        loop {
            self.catch_up().await?;
            let (error, id) = match self.next_line().await? {
                None => return Ok(None),
                Some(false) => line::too_long(),
                Some(true) => {
                    let bytes = self.line.len();
                    let read = line::read(&self.line);
                    self.line.clear();
                    // One long line must not keep its memory for good.
                    self.line.shrink_to(64 << 10);
                    match read {
                        Line::Nothing => continue,
                        Line::Answer(error, id) => (error, id),
                        Line::Message(message) => match self.take(*message, bytes) {
                            Some(message) => return Ok(Some(message)),
                            None => continue,
                        },
                    }
                }
            };
            self.answer = encode(&TxJsonRpcMessage::<RoleServer>::error(error, id));
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (out, budget) = (self.out.clone(), Arc::clone(&self.budget));
        let answers = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let bytes = encode(&item);
        budget.queued(bytes.as_ref().map_or(0, Vec::len));
        async move {
            let sent = match (out, bytes) {
                (Some(out), Some(bytes)) => written(&out, bytes).await,
                _ => Err(closed()),
            };
            if let Some(id) = answers {
                budget.settle(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.next_message().await;
        if let Err(error) = &message {
            tracing::debug!(%error, "the connection failed");
        }
        let message = message.ok().flatten();
        if message.is_none() {
            self.gone.cancel();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out = None;
        Ok(())
    }
}

async fn written(out: &mpsc::Sender<Outgoing>, bytes: Vec<u8>) -> io::Result<()> {
    let (done, written) = oneshot::channel();
    out.send(Outgoing { bytes, done: Some(done) }).await.map_err(|_| closed())?;
    written.await.map_err(|_| closed())?
}

/// Writes lines in order until the senders are gone or the client is.
async fn write_all<W>(mut output: W, mut queue: mpsc::Receiver<Outgoing>, budget: Arc<Budget>, gone: CancellationToken)
where
    W: AsyncWrite + Send + Unpin,
{
    while let Some(Outgoing { bytes, done }) = queue.recv().await {
        let mut result = output.write_all(&bytes).await;
        if result.is_ok() && queue.is_empty() {
            result = output.flush().await;
        }
        budget.written(bytes.len());
        let failed = result.is_err();
        if let Some(done) = done {
            // Nobody need wait for it any more.
            drop(done.send(result));
        }
        if failed {
            gone.cancel();
            return;
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection is closed")
}

fn encode(message: &TxJsonRpcMessage<RoleServer>) -> Option<Vec<u8>> {
    match serde_json::to_vec(message) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            Some(bytes)
        }
        Err(error) => {
            tracing::error!(%error, "a message cannot be written as JSON");
            None
        }
    }
}

fn refusal(refused: Refused, id: RequestId) -> TxJsonRpcMessage<RoleServer> {
    let error = match refused {
        Refused::Duplicate => {
            ErrorData::invalid_request("a request of this id is still being worked on; ids must not repeat", None)
        }
        Refused::Busy => {
            let text = format!("too much at once: at most {REQUESTS} requests may wait for answers; nothing was run");
            ErrorData::new(BUSY, text, None)
        }
    };
    TxJsonRpcMessage::<RoleServer>::error(error, Some(id))
}

/// True for a request that starts a lifecycle: the handshake, or one that carries its own complete metadata.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let known =
                meta.protocol_version().is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version));
            known && meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        }
    }
}
