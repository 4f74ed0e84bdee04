//! A bar on standard error, where that is a terminal.

use std::io::{IsTerminal as _, Write as _};

use stockade::verify::Progress;

/// Columns of the bar itself.
const WIDTH: usize = 30;

/// The bar. It takes its line away when it is dropped.
pub(crate) struct Bar {
    shown: bool,
    last: String,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// Draws it anew where it has changed.
    pub(crate) fn draw(&mut self, progress: Progress) {
        let line = line(progress);
        if self.shown && line != self.last {
            write(&format!("\r{line}\x1b[K"));
            self.last = line;
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if !self.last.is_empty() {
            write("\r\x1b[K");
        }
    }
}

/// A bar that cannot be drawn is no reason to stop.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if let Err(error) = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()) {
        tracing::debug!(%error, "the progress bar was not drawn");
    }
}

fn line(progress: Progress) -> String {
    let total = progress.total.max(1);
    let done = progress.done.min(total);
    let filled = WIDTH * done / total;
    let (full, empty) = ("#".repeat(filled), ".".repeat(WIDTH - filled));
    format!("[{full}{empty}] {:>3}% {}", 100 * done / total, progress.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_overflows() {
        let at = |done, total| line(Progress { what: "read-only", done, total });
        assert_eq!(at(0, 600), format!("[{}]   0% read-only", ".".repeat(WIDTH)));
        assert_eq!(at(300, 600), format!("[{}{}]  50% read-only", "#".repeat(15), ".".repeat(15)));
        for (done, total) in [(600, 600), (700, 600), (0, 0)] {
            assert!(at(done, total).len() <= 80);
        }
        assert!(at(700, 600).contains("100%"));
    }
}
