//! Trying what can be done to files.

#![forbid(unsafe_code)]

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::sys::stat::{Mode, SFlag, makedev, mknod, stat};
use nix::unistd::{Gid, Uid, chown, geteuid, mkfifo, truncate};

use super::{Attempt, Refusal};
use crate::verify::cell::{Cell, FileAct, Place};
use crate::verify::facts::{Facts, NEW};

/// A uid that a file is given to.
pub(in crate::verify) const ANOTHER: u32 = 1501;
/// The time that a file gets, seconds since the epoch.
pub(in crate::verify) const A_TIME: u64 = 1_000_000;
/// The attribute that is set.
pub(in crate::verify) const ATTRIBUTE: &str = "user.stockade";

pub(super) fn attempt(cell: &Cell, act: FileAct, place: Place, facts: &Facts) -> Attempt {
    let (Some(path), Some(second)) = (facts.named(cell), facts.second(cell)) else {
        return Err(Refusal::new("the cell names no path"));
    };
    let (path, second) = (path.as_path(), second.as_path());
    let mode = Mode::from_bits_truncate(0o600);
    match act {
        FileAct::Create => File::create_new(path)?.write_all(NEW.as_bytes())?,
        FileAct::Write | FileAct::WriteThroughSymlink => {
            OpenOptions::new().write(true).open(path)?.write_all(NEW.as_bytes())?;
        }
        FileAct::Append => OpenOptions::new().append(true).open(path)?.write_all(NEW.as_bytes())?,
        FileAct::Truncate => truncate(path, 0)?,
        FileAct::Rename | FileAct::RenameDirectory => fs::rename(path, second)?,
        FileAct::Exchange => exchange(path, second)?,
        FileAct::HardLink | FileAct::LinkIntoWorkspace => fs::hard_link(path, second)?,
        FileAct::Symlink => symlink("elsewhere", path)?,
        FileAct::Remove => fs::remove_file(path)?,
        FileAct::Mkdir => fs::create_dir(path)?,
        FileAct::Rmdir => fs::remove_dir(path)?,
        FileAct::Mkfifo => mkfifo(path, mode)?,
        FileAct::MknodDevice => mknod(path, SFlag::S_IFCHR, mode, makedev(1, 3))?,
        FileAct::Chmod => fs::set_permissions(path, Permissions::from_mode(0o600))?,
        FileAct::SetUserId => fs::set_permissions(path, Permissions::from_mode(0o4755))?,
        FileAct::Chown => give_away(path)?,
        FileAct::Utimes => {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(A_TIME);
            File::open(path)?.set_times(FileTimes::new().set_modified(time).set_accessed(time))?;
        }
        FileAct::Xattr => {
            rustix::fs::setxattr(path, ATTRIBUTE, NEW.as_bytes(), rustix::fs::XattrFlags::empty())?;
        }
        FileAct::Read => return Ok(fs::read_to_string(path)?),
        FileAct::Execute => return execute(path, place, facts),
    }
    Ok(String::new())
}

fn exchange(path: &Path, second: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, path, CWD, second, RenameFlags::EXCHANGE).map_err(io::Error::from)
}

/// Root gives the file to another; anybody else gives it to himself, which changes its ctime.
fn give_away(path: &Path) -> Result<(), Refusal> {
    let me = geteuid().as_raw();
    let to = if me == 0 { ANOTHER } else { me };
    let group = stat(path)?.st_gid;
    Ok(chown(path, Some(Uid::from_raw(to)), Some(Gid::from_raw(group)))?)
}

fn execute(path: &Path, place: Place, facts: &Facts) -> Attempt {
    let mut command = Command::new(path);
    if place == Place::System {
        command.args(["-c", "printf %s \"$1\"", "sh", &facts.token]);
    }
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Refusal::new(String::from_utf8_lossy(&output.stderr).trim()))
}
