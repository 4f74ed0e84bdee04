//! Network namespaces that the sandboxes of one session share, so that a server which one call left running is there for
//! the next.
//!
//! A namespace is kept by its descriptors; no process has to wait in it. The loopback is all there is in it, and none of
//! its sandboxes may configure it. An ordinary user's belongs to a user namespace of its own: only from within that may a
//! process join it. Its sandboxes are born from there into user namespaces of their own, so that they share neither
//! capabilities nor what the kernel counts for each (`RLIMIT_NPROC`).

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2, read, write};

use super::init::write_id_maps;
use super::lookups::NameServer;
use super::protocol::Event;
use super::ready::Ready;
use super::reap;
use super::server::namespace_flags;
use super::step::{At, StepError};
use super::wire;
use crate::kernel::{self, Cloned};
use crate::plan::{IdMap, Shape};

/// Namespaces kept at any one time; the one unused longest makes room. Its sandboxes keep it for themselves.
const MOST: usize = 16;

/// The network that an init finds itself in.
#[derive(Debug)]
pub(super) enum Network {
    /// What its plan says is still to be made.
    AsPlanned,
    /// The session's, with its loopback up.
    Joined {
        /// The sandbox's own address for its name server: the port is one for each address.
        names: Ipv4Addr,
        /// Opened while this process may still have such a port.
        server: Option<NameServer>,
    },
}

/// Those of one launcher.
#[derive(Debug, Default)]
pub(super) struct Networks {
    kept: VecDeque<Shared>,
}

#[derive(Debug)]
struct Shared {
    number: u32,
    network: OwnedFd,
    user: Option<OwnedFd>,
    /// Sandboxes begun in it.
    begun: u32,
}

impl Networks {
    /// Clones the init of a sandbox, in its session's network where its plan wants that and it can be had. Where it
    /// cannot, the sandbox gets one of its own: that refuses no less.
    pub(super) fn begin(&mut self, shape: Option<Shape>) -> Result<(Cloned, Network), Errno> {
        if let Some(shared) = shape.and_then(|shape| self.find(shape)) {
            match shared.begin() {
                Ok(begun) => return Ok(begun),
                Err(errno) => tracing::info!(%errno, "a session's network could not be joined"),
            }
        }
        Ok((kernel::clone_process(namespace_flags(shape), true)?, Network::AsPlanned))
    }

    /// Lets go of all of them.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    fn find(&mut self, shape: Shape) -> Option<&mut Shared> {
        let number = shape.namespaces.session_network?;
        let found = self.kept.iter().position(|shared| shared.number == number).and_then(|at| self.kept.remove(at));
        let shared = match found.map_or_else(|| Shared::make(number, shape.namespaces.user), Ok) {
            Ok(shared) => shared,
            Err(error) => {
                tracing::info!(?error, "no network for a session");
                return None;
            }
        };
        if self.kept.len() >= MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(shared);
        self.kept.back_mut()
    }
}

impl Shared {
    /// Makes the namespaces in a child, which hands them over and ends.
    fn make(number: u32, user: Option<IdMap>) -> Result<Self, StepError> {
        let (ours, theirs) = Ready::inbox()?;
        let flags = if user.is_some() { CloneFlags::CLONE_NEWUSER } else { CloneFlags::empty() };
        match kernel::clone_process(flags, false)? {
            Cloned::Child => kernel::exit_now(i32::from(furnish(user, &theirs).is_err())),
            Cloned::Parent { pid, .. } => {
                drop(theirs);
                let received = wire::receive::<Event>(&ours);
                collect(pid);
                let (_, descriptors) = received.map_err(|_| Errno::EPERM)?;
                let mut descriptors = descriptors.into_iter();
                let network = descriptors.next().ok_or(Errno::EPERM)?;
                Ok(Self { number, network, user: descriptors.next(), begun: 0 })
            }
        }
    }

    fn begin(&mut self) -> Result<(Cloned, Network), Errno> {
        let names = address_of(self.begun);
        self.begun = self.begun.wrapping_add(1);
        if let Some(user) = &self.user {
            return self.clone_within(user, names);
        }
        let cloned = kernel::clone_process(CloneFlags::CLONE_NEWPID, true)?;
        let joined = matches!(cloned, Cloned::Child) && setns(&self.network, CloneFlags::CLONE_NEWNET).is_ok();
        let network =
            if joined { Network::Joined { names, server: NameServer::open(names) } } else { Network::AsPlanned };
        Ok((cloned, network))
    }

    /// A process between joins both namespaces and clones the init as a sibling of its own, a child of the launcher.
    fn clone_within(&self, user: &OwnedFd, names: Ipv4Addr) -> Result<(Cloned, Network), Errno> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        let Cloned::Parent { pid: between, .. } = kernel::clone_process(CloneFlags::empty(), false)? else {
            drop(reader);
            return match self.clone_sibling(user, names) {
                Ok((Cloned::Child, network)) => Ok((Cloned::Child, network)),
                Ok((Cloned::Parent { pid, .. }, _)) => {
                    let told = write(&writer, &pid.as_raw().to_ne_bytes());
                    kernel::exit_now(i32::from(told.is_err()))
                }
                Err(_) => kernel::exit_now(1),
            };
        };
        drop(writer);
        let mut number = [0; 4];
        let told = read(&reader, &mut number);
        collect(between);
        if told? != number.len() {
            return Err(Errno::EPERM);
        }
        let pid = Pid::from_raw(i32::from_ne_bytes(number));
        match kernel::notify::pidfd_open(pid.as_raw().unsigned_abs()) {
            Ok(pidfd) => Ok((Cloned::Parent { pid, pidfd: Some(pidfd) }, Network::AsPlanned)),
            Err(error) => {
                reap::kill_one(pid);
                Err(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
            }
        }
    }

    fn clone_sibling(&self, user: &OwnedFd, names: Ipv4Addr) -> Result<(Cloned, Network), Errno> {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
        setns(&self.network, CloneFlags::CLONE_NEWNET)?;
        let server = NameServer::open(names);
        let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_PARENT;
        Ok((kernel::clone_process(flags, false)?, Network::Joined { names, server }))
    }
}

/// 127.53.0.1 to 127.53.255.254, each once before any comes again: of two sandboxes with one address, the second would be
/// answered by the first's name server. They are looked for in no other place than a sandbox's own resolv.conf.
fn address_of(number: u32) -> Ipv4Addr {
    const HOSTS: u32 = 254;
    let [.., high] = (number / HOSTS).to_be_bytes();
    let [.., low] = (number % HOSTS + 1).to_be_bytes();
    Ipv4Addr::new(127, 53, high, low)
}

/// In the child: a network with its loopback up, and the user namespace that it belongs to.
fn furnish(user: Option<IdMap>, launcher: &OwnedFd) -> Result<(), StepError> {
    if let Some(map) = user {
        write_id_maps(map)?;
    }
    unshare(CloneFlags::CLONE_NEWNET)?;
    kernel::bring_loopback_up()?;
    let own = |name: &str| {
        let path = Path::new("/proc/self/ns").join(name);
        open(&path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).at(&path)
    };
    let mut descriptors = vec![own("net")?];
    if user.is_some() {
        descriptors.push(own("user")?);
    }
    let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    wire::send(launcher, &Event::Started, &numbers).map_err(|_| Errno::EPIPE)?;
    Ok(())
}

fn collect(child: Pid) {
    while waitpid(child, None) == Err(Errno::EINTR) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_server_gets_the_address_of_another() {
        let all: HashSet<_> = (0..256 * 254).map(address_of).collect();
        assert_eq!(all.len(), 256 * 254);
        let outside = all.iter().find(|at| !matches!(at.octets(), [127, 53, _, 1..=254]));
        assert_eq!(outside, None);
        assert_eq!(address_of(256 * 254), address_of(0));
    }
}
