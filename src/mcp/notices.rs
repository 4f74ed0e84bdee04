//! Completion notices of background tasks as log messages.
//!
//! A client of the handshake gets each at once. Without the handshake log messages belong to a request that asked for
//! them, so notices wait for the next one that does.

#![forbid(unsafe_code)]
#![expect(deprecated, reason = "log messages are on their way out of the protocol and have no successor for this yet")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::Peer;
use rmcp::{RoleServer, ServiceError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::tool::{Notice, NoticeSink};

/// Notices that may wait; older ones give way, and the tasks can be read all the same.
const WAITING: usize = 256;

/// The level of a notice.
const LEVEL: LoggingLevel = LoggingLevel::Notice;

/// The notices of one connection.
pub(super) struct Notices {
    waiting: Mutex<VecDeque<Notice>>,
    more: Notify,
    least: Mutex<LoggingLevel>,
    followed: AtomicBool,
    ended: CancellationToken,
}

impl Notices {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            more: Notify::new(),
            least: Mutex::new(LoggingLevel::Debug),
            followed: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }

    /// Sets the least level that is sent to a client of the handshake.
    pub(super) fn set_least(&self, level: LoggingLevel) {
        *self.least.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// Sends every notice as it comes. For a client of the handshake; ends with the connection. Only the first call does
    /// anything.
    pub(super) async fn follow(self: Arc<Self>, peer: Peer<RoleServer>) {
        if self.followed.swap(true, Ordering::Relaxed) {
            return;
        }
        loop {
            let wanted = rank(LEVEL) >= rank(*self.least.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = self.send(&peer, wanted).await {
                tracing::debug!(%error, "notices end");
                return;
            }
            tokio::select! {
                () = self.more.notified() => {}
                () = self.ended.cancelled() => return,
            }
        }
    }

    /// Ends with the connection: nobody is left to be told.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Sends what waits on behalf of a request that asks for messages from `least` on.
    pub(super) async fn flush(&self, peer: &Peer<RoleServer>, least: Option<LoggingLevel>) {
        let wanted = least.is_some_and(|least| rank(LEVEL) >= rank(least));
        if wanted && let Err(error) = self.send(peer, true).await {
            tracing::debug!(%error, "notices not sent");
        }
    }

    async fn send(&self, peer: &Peer<RoleServer>, wanted: bool) -> Result<(), ServiceError> {
        while let Some(notice) = self.next() {
            if !wanted {
                continue;
            }
            match serde_json::to_value(&notice) {
                Ok(data) => {
                    let message = LoggingMessageNotificationParam::new(LEVEL, data).with_logger("stockade");
                    peer.notify_logging_message(message).await?;
                }
                Err(error) => tracing::warn!(%error, "a notice cannot be written"),
            }
        }
        Ok(())
    }

    fn next(&self) -> Option<Notice> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Notice>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoticeSink for Notices {
    fn notify(&self, notice: Notice) {
        let mut waiting = self.lock();
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back(notice);
        drop(waiting);
        self.more.notify_one();
    }
}

/// The levels in ascending order of severity.
const fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
