//! What a command leaves running dies with it.

use std::time::Duration;

use stockade::executor::{BashExecutor as _, ExecRequest, Timeout};
use stockade::policy::SandboxMode;

use crate::executor::{Place, as_every_user, run};
use crate::traces::{Token, eventually};
use crate::{BACKENDS, block_on};

/// Every way out of a process group that a shell knows, all deaf to polite signals and holding no output.
const DAEMONS: &str = "\
trap '' TERM HUP INT QUIT
exec 3>&1 >/dev/null 2>&1
setsid sleep 1000 &
(setsid sleep 1000 &)
(setsid bash -c '(setsid bash -c \"sleep 1000 & sleep 1000\" &)' &)
nohup sleep 1000 &
disown -a
sleep 0.1
echo started >&3
";

#[test]
fn daemons_die_with_their_command() {
    as_every_user("daemons::daemons_die_with_their_command_inside");
}

#[test]
#[ignore = "run by daemons_die_with_their_command as each user"]
fn daemons_die_with_their_command_inside() {
    block_on(async {
        for backend in BACKENDS {
            let place = Place::new();
            let token = Token::of(place.root());
            let executor = place.executor(SandboxMode::ReadOnly, backend);
            for (ending, signal) in [("exit 3", None), ("kill -KILL $$", Some("SIGKILL"))] {
                let request = token.mark(ExecRequest::shell(format!("{DAEMONS}{ending}")));
                let result = run(&executor, request).await.unwrap();
                assert_eq!(result.stdout.text, "started\n", "{backend:?}: {}", result.stderr.text);
                assert_eq!(result.signal.as_deref(), signal, "{backend:?}");
                token.assert_gone(&format!("{ending}, {backend:?}"));
            }
            let mut slow = token.mark(ExecRequest::shell(format!("{DAEMONS}sleep 1000")));
            slow.timeout = Timeout::After(Duration::from_millis(600));
            let result = run(&executor, slow).await.unwrap();
            assert!(result.timed_out && !result.aborted, "{backend:?}: {result:?}");
            assert_eq!(result.stdout.text, "started\n", "{backend:?}");
            token.assert_gone(&format!("a timeout, {backend:?}"));
            control(&executor, &token).await;
            executor.dispose().await;
            token.assert_gone(&format!("disposal, {backend:?}"));
        }
    });
}

/// While the command runs its daemons are there to be found.
async fn control(executor: &stockade::sandboxed::SandboxedExecutor, token: &Token) {
    let request = token.mark(ExecRequest::shell(format!("{DAEMONS}sleep 1000")));
    let process = executor.start(executor.resolve(request).unwrap()).await.unwrap();
    eventually("the daemons are seen", || token.processes().len() >= 6).await;
    assert!(process.kill().await);
    token.assert_gone("kill()");
}
