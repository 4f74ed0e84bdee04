//! Progress notifications while a call works.

#![forbid(unsafe_code)]

use std::future::Future;
use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use rmcp::{RoleServer, ServiceError};

/// How long the last notification may take to go out before the result does.
const LAST: Duration = Duration::from_millis(200);

/// Drives `work` to its end, telling the client every so often that it still runs, if it asked to be told.
///
/// The work goes on at its own pace when the client does not read; no notification follows the result.
pub(super) async fn reporting<T>(
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    every: Duration,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = token else { return work.await };
    tokio::pin!(work);
    let started = Instant::now();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick comes at once, when there is nothing to tell.
    ticks.tick().await;
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {}
        }
        let sending = peer.notify_progress(still_running(&token, started.elapsed()));
        tokio::pin!(sending);
        let sent: Result<(), ServiceError> = tokio::select! {
            sent = &mut sending => sent,
            done = &mut work => {
                if tokio::time::timeout(LAST, sending).await.is_err() {
                    tracing::debug!("the client does not read progress");
                }
                return done;
            }
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "progress ends");
            return work.await;
        }
    }
}

fn still_running(token: &ProgressToken, elapsed: Duration) -> ProgressNotificationParam {
    let seconds = elapsed.as_secs_f64();
    ProgressNotificationParam::new(token.clone(), seconds).with_message(format!("running for {seconds:.0} s"))
}
