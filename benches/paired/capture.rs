//! Output of a gigabyte.

use std::process::{Command, Stdio};
use std::time::Instant;

use stockade::executor::{BashExecutor, ExecRequest, Timeout};
use stockade::sandboxed::TraceChoice;

use super::figures::{Figures, Times};
use super::spawn::{confined, runtime};

/// Two producers: one writes pages at a time, the other as much as the pipe takes.
const PRODUCERS: [(&str, &str); 2] =
    [("head", "head -c 1073741824 /dev/zero"), ("dd", "dd if=/dev/zero bs=64k count=16384 2>/dev/null")];

/// Seconds of it, beside `cat` reading the same to nowhere.
pub(crate) fn gigabyte(rounds: usize, figures: &mut Figures) {
    let executor = confined(TraceChoice::Auto);
    for (name, producer) in PRODUCERS {
        let mut times = Times::of(&["cat >/dev/null", "captured"]);
        runtime().block_on(async {
            for _ in 0..(rounds / 12).max(3) {
                let began = Instant::now();
                let status = Command::new("bash")
                    .args(["-c", &format!("{producer} | cat >/dev/null")])
                    .stdin(Stdio::null())
                    .status()
                    .unwrap();
                assert!(status.success());
                let plain = began.elapsed().as_secs_f64();
                let request = ExecRequest { timeout: Timeout::None, ..ExecRequest::shell(producer) };
                let spec = executor.resolve(request).unwrap();
                let began = Instant::now();
                let result = executor.run(spec).await.unwrap();
                times.add([plain, began.elapsed().as_secs_f64()]);
                assert_eq!(result.stdout.bytes, 1 << 30);
            }
        });
        figures.take(&format!("capture of 1 GiB from {name}"), "s", &times);
    }
    runtime().block_on(executor.dispose());
}
