//! One run that many rows share: the probe inside is told one attack at a time, and the outside is looked at after each.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::probes::wait;
use crate::run::{Place, SCRATCH, Said, Seen, changes, environment, lingering, surroundings, watched};
use crate::scene::{Lines, Scene, Template};
use crate::table::{Around, Attack};

/// How long one attack may take.
const ATTACK: Duration = Duration::from_secs(60);

pub(crate) struct Session {
    scene: Scene,
    place: Place,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    stderr: File,
    before: Vec<String>,
    next: usize,
    /// Something outside is not as it was at the start.
    pub(crate) changed: bool,
}

impl Session {
    /// A fresh scene, and a run in it that waits for attacks.
    pub(crate) fn start(template: &Template, place: &Place, around: Around, workspace: &str) -> Self {
        let mut scene = template.scene();
        let (whole, special) = watched(&scene, place);
        scene.watch(&whole, &special);
        let workspace = scene.path(workspace);
        let scratch =
            if place.read_only() { String::from("-") } else { workspace.join("scratch").display().to_string() };
        let mut words = surroundings(&scene, place, around, &workspace.display().to_string(), false);
        words.extend([scene.probe(), "in-turn".into(), workspace.display().to_string(), scratch]);
        // What descends from it is told from other processes by this word.
        words.push(scene.token.clone());
        let before = scene.world();
        let stderr = tempfile::tempfile().unwrap();
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .envs(environment(&scene))
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        let stdin = child.stdin.take();
        let lines = Lines::of(child.stdout.take().unwrap());
        let mut session =
            Self { scene, place: place.clone(), child, stdin, lines, stderr, before, next: 0, changed: false };
        if !session.lines.until("@@ready", ATTACK).1 {
            panic!("nothing runs inside: {}", session.told());
        }
        session
    }

    /// What the run wrote to standard error so far.
    fn told(&mut self) -> String {
        let mut bytes = Vec::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Tries one row, and looks at the outside.
    pub(crate) fn attack(&mut self, row: &Attack) -> Seen {
        let line = self.line(row);
        let end = format!("@@end {} ", self.next);
        self.next += 1;
        let sent = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(line.as_bytes()).is_ok());
        let (mut lines, ended) = if sent { self.lines.until(&end, ATTACK) } else { (Vec::new(), false) };
        let code = if ended { lines.pop().and_then(|line| line[end.len()..].parse().ok()) } else { None };
        lines.retain(|line| !line.starts_with("@@begin "));
        let mut seen = Seen::of_nothing(&self.scene);
        seen.said = vec![Said { code, text: lines.join("\n") }];
        self.compare(&mut seen);
        seen.hung = sent && !ended && self.child.try_wait().unwrap().is_none();
        if code.is_none() {
            seen.stderr = self.told();
        }
        seen.leaked = [&seen.said[0].text, &seen.stderr].iter().any(|text| text.contains(&seen.canary));
        seen
    }

    fn compare(&mut self, seen: &mut Seen) {
        let after = self.scene.world();
        if after != self.before {
            seen.changes = changes(&self.before, &after);
            self.before = after;
            self.changed = true;
        }
    }

    /// Processes that an unconfined row left behind, which are ended.
    pub(crate) fn survivors(&self) -> usize {
        lingering(&self.scene, self.place != Place::Unconfined, self.child.id())
    }

    fn line(&self, row: &Attack) -> String {
        let filled = self.scene.fill(&row.args, Path::new(SCRATCH));
        let mut words = vec![self.next.to_string()];
        let own = row.own.filter(|_| self.place == Place::Unconfined);
        match (filled.strip_prefix("sh:"), own) {
            (Some(shell), _) => words.extend(["exec", "bash", "-c", shell].map(str::to_owned)),
            (None, Some(option)) => {
                words.extend(["exec".into(), "unshare".into(), option.to_owned(), self.scene.probe()]);
                words.extend(filled.split(' ').map(str::to_owned));
            }
            (None, None) => {
                words.push("probe".into());
                words.extend(filled.split(' ').map(str::to_owned));
            }
        }
        words.join("\x1f").replace('\n', "\x1e") + "\n"
    }

    /// Ends the run, and says what came to light only then.
    pub(crate) fn finish(mut self) -> Seen {
        drop(self.stdin.take());
        let (_, hung) = wait(&mut self.child, Duration::from_secs(30));
        let mut seen = Seen::of_nothing(&self.scene);
        seen.hung = hung;
        seen.survivors = if self.place == Place::Unconfined { 0 } else { self.survivors() };
        self.compare(&mut seen);
        seen.stderr = self.told();
        seen.leaked = seen.stderr.contains(&seen.canary);
        seen
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        wait(&mut self.child, Duration::from_secs(5));
    }
}
