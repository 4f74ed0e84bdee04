//! The outside: throw-away targets on the host for the cells to act on, and what has become of them.

#![forbid(unsafe_code)]

mod look;
mod services;
mod state;
mod victims;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) use look::Seen;
use services::Services;
use state::state;
use victims::Processes;

use super::cell::{Act, Cell, FileAct, Place};
use super::facts::{Facts, OLD};
use super::table::cells;
use crate::policy::Limits;

/// What an exchanged file's partner holds.
const PARTNER: &str = "partner";

/// Everything that one run can touch. Dropping it takes it all away.
pub(super) struct Scene {
    dir: tempfile::TempDir,
    pub(super) facts: Facts,
    cells: Vec<Cell>,
    processes: Processes,
    services: Services,
    /// By cell: its two paths as they were.
    before: Vec<[String; 2]>,
    /// Targets that this host does not let be made, by cell.
    unprepared: BTreeMap<usize, String>,
}

impl Scene {
    /// Makes the targets beneath `beneath`. `program` becomes the processes that are attacked.
    pub(super) fn build(beneath: &Path, program: &Path, unconfined: bool) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(".stockade-verify-").tempdir_in(beneath)?;
        let root = dir.path().canonicalize()?;
        let token = token()?;
        let directories =
            ["work/.git/objects", "work/.vscode", "work/.claude", "outside", "home/.ssh", "home/.aws", "bin"];
        for directory in directories {
            fs::create_dir_all(root.join(directory))?;
        }
        for repository in ["work", "work/second", "work/third"] {
            git_init(&root.join(repository))?;
        }
        let processes = Processes::start(program, &token)?;
        let services = Services::start(&token);
        let facts = Facts {
            unconfined,
            tcp_port: services.tcp_port(),
            udp_port: services.udp_port(),
            victims: processes.victims(),
            queue: services.queue(),
            disk: disk(),
            processes: None,
            tmp_size: None,
            token,
            root,
        };
        let mut scene =
            Self { dir, facts, cells: cells(), processes, services, before: Vec::new(), unprepared: BTreeMap::new() };
        scene.prepare_all()?;
        Ok(scene)
    }

    fn prepare_all(&mut self) -> io::Result<()> {
        self.services.make_queue(&self.facts);
        for (number, cell) in self.cells.clone().into_iter().enumerate() {
            if let Err(error) = self.prepare(&cell) {
                self.unprepared.insert(number, format!("its target cannot be made here: {error}"));
            }
        }
        let through = |cell: &&Cell| matches!(cell.act, Act::File(FileAct::WriteThroughSymlink, _));
        if let Some(target) = self.cells.iter().find(through).and_then(|cell| self.facts.target(cell)) {
            symlink(target, self.facts.symlink())?;
        }
        self.before = self.cells.iter().map(|cell| self.paths(cell).map(|path| state(path.as_deref()))).collect();
        Ok(())
    }

    /// Tells the inside where everything is, and which limits there are to exceed.
    pub(super) fn publish(&mut self, limits: &Limits) -> io::Result<()> {
        self.facts.processes = limits.processes.filter(|limit| *limit <= MOST_PROCESSES);
        self.facts.tmp_size = limits.tmp_size;
        fs::write(Facts::file(self.root()), serde_json::to_vec(&self.facts).map_err(io::Error::other)?)
    }

    pub(super) fn root(&self) -> &Path {
        &self.facts.root
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.root().join("work")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// A copy of this program in a place that every sandbox sees.
    pub(super) fn place_program(&self) -> io::Result<PathBuf> {
        let place = self.root().join("bin/stockade");
        fs::copy("/proc/self/exe", &place)?;
        fs::set_permissions(&place, Permissions::from_mode(0o755))?;
        Ok(place)
    }

    /// What an operation finds.
    fn prepare(&mut self, cell: &Cell) -> io::Result<()> {
        let Some(path) = self.facts.target(cell) else { return Ok(()) };
        let executable = Permissions::from_mode(0o755);
        match cell.act {
            Act::UnixStream(_) => return self.services.listen(&path),
            Act::UnixDatagram(_) | Act::AimedSocketPair => return self.services.receive(&path),
            Act::MountTmpfs => return fs::create_dir(&path),
            Act::WalkItsRoot => return fs::write(&path, OLD),
            _ => {}
        }
        let Act::File(act, place) = cell.act else { return Ok(()) };
        match act {
            FileAct::Read => fs::write(&path, &self.facts.token),
            FileAct::Execute if place == Place::Workspace => {
                fs::write(&path, format!("#!/bin/sh\nprintf %s {}\n", self.facts.token))?;
                fs::set_permissions(&path, executable)
            }
            FileAct::Rmdir => fs::create_dir(&path),
            FileAct::SetUserId => {
                fs::write(&path, OLD)?;
                fs::set_permissions(&path, executable)
            }
            FileAct::Exchange => {
                fs::write(&path, OLD)?;
                self.facts.second(cell).map_or(Ok(()), |second| fs::write(second, PARTNER))
            }
            FileAct::Create
            | FileAct::Symlink
            | FileAct::Mkdir
            | FileAct::Mkfifo
            | FileAct::MknodDevice
            | FileAct::RenameDirectory
            | FileAct::Execute => Ok(()),
            // It has to stay one that git can read.
            _ if place == Place::GitConfig => Ok(()),
            _ => fs::write(&path, OLD),
        }
    }

    fn paths(&self, cell: &Cell) -> [Option<PathBuf>; 2] {
        [self.facts.target(cell), self.facts.second(cell)]
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // What lies outside the scene's own directory.
        for cell in &self.cells {
            let Act::File(_, Place::Tmp | Place::DevShm | Place::Tmpdir) = cell.act else { continue };
            if let Some(path) = self.facts.target(cell).filter(|path| path.exists())
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(%error, path = %path.display(), "a throw-away file could not be removed");
            }
        }
        tracing::trace!(dir = %self.dir.path().display(), "the scene is taken away");
    }
}

/// More than this many are not started to try a limit.
const MOST_PROCESSES: u64 = 4096;

fn token() -> io::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn git_init(repository: &Path) -> io::Result<()> {
    for directory in [".git/hooks", ".git/objects", ".git/refs"] {
        fs::create_dir_all(repository.join(directory))?;
    }
    fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(repository.join(".git/config"), "[core]\n")
}

/// The first disk that has a device file.
fn disk() -> Option<PathBuf> {
    let names = fs::read_dir("/sys/block").ok()?.flatten().map(|entry| Path::new("/dev").join(entry.file_name()));
    let mut disks: Vec<PathBuf> =
        names.filter(|path| path.metadata().is_ok_and(|meta| meta.file_type().is_block_device())).collect();
    disks.sort();
    disks.into_iter().next()
}
