//! A host that is out of processes for root as well: a control group that lets only so many be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade::host::leaf_place;

use crate::shortage::{Limit, Short};
use crate::user::User;

/// A group below that of this test; removed with this value.
#[derive(Debug)]
pub(crate) struct PidsGroup(PathBuf);

impl PidsGroup {
    /// One of version 1 or 2, or why there is none.
    fn make() -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let version_1 = own.lines().find_map(|line| line.split_once(":pids:/")).map(|(_, path)| path);
        let parent = match version_1 {
            Some(path) => Path::new("/sys/fs/cgroup/pids").join(path),
            None => leaf_place().map_err(|error| error.to_string())?,
        };
        let path = parent.join(format!("stockade-test-pids-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn allow(&self, most: u64) {
        fs::write(self.0.join("pids.max"), most.to_string()).unwrap();
    }

    /// The command, begun by a shell that enters the group and becomes it.
    pub(crate) fn within(&self, inner: &Command) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        command.arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }
}

impl Drop for PidsGroup {
    fn drop(&mut self) {
        // What was killed in it may be on its way out still.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.0.display());
    }
}

/// Each run works or fails as one that did not run, whoever asks; with room for all of it, it works.
#[test]
fn no_processes_for_anybody() {
    if !User::current().is_root() {
        eprintln!("not root: no control group can be made");
        return;
    }
    let group = match PidsGroup::make() {
        Ok(group) => group,
        Err(why) => return eprintln!("no control group can be made on this host: {why}"),
    };
    for user in User::all() {
        let (_, failed) = Short::new(user).all((1..16).map(|most| Limit::Pids(&group, most)));
        let (worked, failed_with_room) =
            Short::new(user).all([64, 256].map(|most| Limit::Pids(&group, most)).into_iter());
        assert!(failed > 4, "{}: {failed} failed", user.name());
        assert_eq!((worked, failed_with_room), (4, 0), "{}", user.name());
    }
}
