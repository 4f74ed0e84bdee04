//! Operations on other processes, their shared objects, the network and sockets.

#![forbid(unsafe_code)]

use super::{excused, lands, refused};
use crate::executor::Gap;
use crate::verify::cell::{Act, Cell, Group, Place};

const OF_THE_HOST: &str = "of the host";
const SAME_USER: &str = "of the same user outside";

pub(super) fn cells() -> Vec<Cell> {
    [processes(), shared(), network(), sockets(), privileges(), limits()].concat()
}

fn processes() -> Vec<Cell> {
    let row = |what, act| refused(Group::Processes, what, SAME_USER, act);
    vec![
        lands(Group::Processes, "signal a child of its own", "", Act::SignalChild),
        row("terminate a process", Act::Terminate),
        row("stop a process", Act::Stop),
        row("kill a process by a pidfd", Act::KillByDescriptor),
        excused(Gap::ProcessIsolation, row("see in /proc a process", Act::See)),
        row("read the environment of a process", Act::ReadEnvironment),
        row("read the memory (process_vm_readv) of a process", Act::ReadMemoryByCall),
        row("write the memory (process_vm_writev) of a process", Act::WriteMemoryByCall),
        row("read the memory (/proc/PID/mem) of a process", Act::ReadMemoryByFile),
        row("write the memory (/proc/PID/mem) of a process", Act::WriteMemoryByFile),
        row("open a descriptor (/proc/PID/fd) of a process", Act::ReadDescriptorByFile),
        row("take a descriptor (pidfd_getfd) of a process", Act::TakeDescriptor),
        row("reach files through /proc/PID/root of a process", Act::WalkItsRoot),
        row("trace a process", Act::Trace),
        row("change the priority of a process", Act::Renice),
        row("change the processors of a process", Act::Affinity),
        row("change a resource limit of a process", Act::ResourceLimit),
        row("change the out-of-memory score of a process", Act::OutOfMemoryScore),
    ]
}

fn shared() -> Vec<Cell> {
    vec![
        refused(Group::Ipc, "send to a System V message queue", OF_THE_HOST, Act::MessageQueue),
        refused(Group::Ipc, "send to a POSIX message queue", OF_THE_HOST, Act::PosixQueue),
        excused(Gap::ProcessIsolation, refused(Group::Keyrings, "see in /proc/keys a key", SAME_USER, Act::HostKeys)),
    ]
}

fn network() -> Vec<Cell> {
    let own = lands(Group::Network, "serve and connect to itself on 127.0.0.1", "", Act::OwnLoopback);
    vec![
        excused(Gap::NetworkIsolation, own),
        excused(
            Gap::NetworkIsolation,
            refused(Group::Network, "connect to a TCP server on 127.0.0.1", OF_THE_HOST, Act::TcpConnect),
        ),
        excused(Gap::NetworkUdp, refused(Group::Network, "send a datagram to 127.0.0.1", OF_THE_HOST, Act::UdpSend)),
        refused(Group::Network, "open a raw socket", "", Act::RawSocket),
        refused(Group::Network, "open a packet socket", "", Act::PacketSocket),
        refused(Group::Network, "listen to audit records by netlink", "", Act::AuditSocket),
    ]
}

fn sockets() -> Vec<Cell> {
    let row = |what, place, act| excused(Gap::UnixSockets, refused(Group::Sockets, what, place, act));
    vec![
        row("connect to a socket by path", "in the workspace", Act::UnixStream(Place::Workspace)),
        row("connect to a socket by path", "in another directory", Act::UnixStream(Place::Outside)),
        row("send to a socket by path", "in another directory", Act::UnixDatagram(Place::Outside)),
        row("re-aim a socket pair at a path", "in another directory", Act::AimedSocketPair),
        row("connect to an abstract socket", OF_THE_HOST, Act::UnixAbstract),
    ]
}

fn privileges() -> Vec<Cell> {
    let row = |what, act| refused(Group::Privileges, what, "", act);
    vec![
        row("hold or regain a capability beyond those over files", Act::Capabilities),
        row("gain privileges by a set-user-ID program", Act::GainPrivileges),
        row("become another user", Act::BecomeAnother),
    ]
}

fn limits() -> Vec<Cell> {
    let row = |what, act| refused(Group::Limits, what, "", act);
    let outlive = refused(Group::Limits, "outlive the command as a daemon", "", Act::Outlive);
    vec![
        excused(Gap::Limits, row("start more processes than the limit", Act::ManyProcesses)),
        excused(Gap::Limits, row("have more room in /tmp than the limit", Act::LargeTmp)),
        row("leave a core file", Act::CoreFile),
        excused(Gap::ProcessIsolation, outlive),
    ]
}
