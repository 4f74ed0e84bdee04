//! The progress bar: on a terminal, on standard error, and gone at the end.

use std::io::Read as _;
use std::process::Stdio;

use crate::cli::{Prompt, outcome};
use crate::user::User;
use crate::{alone, verify};

#[test]
fn there_is_a_bar_on_a_terminal_and_nowhere_else() {
    let _alone = alone();
    let prompt = Prompt::of(User::current());
    let pty = nix::pty::openpty(None, None).unwrap();
    let mut command = verify(&prompt, &["--mode", "read-only", "--json"]);
    command.stderr(Stdio::from(pty.slave)).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    // The command held the other copy of the terminal.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
        let mut master = std::fs::File::from(pty.master);
        // The end of a terminal is an error.
        while let Ok(length @ 1..) = master.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8(shown).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    let shown = reader.join().unwrap();
    assert!(output.status.success(), "{shown}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kept"], true);
    for step in ["% the host", "% without a sandbox", "% read-only", "100% done"] {
        assert!(shown.contains(step), "{step} in {shown:?}");
    }
    assert!(shown.ends_with("\r\x1b[K"), "{shown:?}");
    // The control: no terminal, no bar.
    let (code, _, err) = outcome(&mut verify(&prompt, &["--mode", "read-only", "--json"]));
    assert_eq!((code, err.as_str()), (0, ""));
}
