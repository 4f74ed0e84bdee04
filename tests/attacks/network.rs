//! Sockets of every family, aimed at the bystander's services on this host.

use crate::table::{Attack, Control, Effect, control};

const TCP: &[&str] = &["network-isolation"];
const UDP: &[&str] = &["network-udp", "network-isolation"];
const UNIX: &[&str] = &["unix-sockets"];

pub(crate) fn attacks() -> Vec<Attack> {
    use Effect::{Claim, World};
    let net = |args: &str| Attack::new("network", World, args);
    let unix = |args: &str| Attack::new("unix", World, args).gap(UNIX);
    let mut all = vec![
        net("inet tcp {tcp}").gap(TCP),
        net("inet tcp6 {tcp6}").gap(TCP),
        net("inet mapped {tcp}").gap(TCP),
        net("inet mptcp {mptcp}").gap(TCP),
        net("inet mptcp {tcp}").gap(TCP),
        net("inet fastopen {tcp}").gap(TCP),
        net("inet fastopen-connect {tcp}").gap(TCP),
        net("inet udp {udp}").gap(UDP),
        net("inet udp6 {udp6}").gap(UDP),
        net("inet udp-sendto {udp}").gap(UDP),
        net("inet udp-sendmmsg {udp}").gap(UDP),
        net("inet udp6-sendto {udp6}").gap(UDP),
        net("inet udplite {udplite}").gap(UDP),
        net("inet sctp {tcp}").nobody("this kernel has no SCTP"),
        net("uring-connect inet {tcp}").gap(TCP),
        net("sh:exec 3<>/dev/tcp/127.0.0.1/{tcp}").gap(TCP),
        net("sh:echo x >/dev/udp/127.0.0.1/{udp}").gap(UDP),
        net("sh:python3 -c 'import socket; socket.create_connection((\"localhost\", {tcp}))'").gap(TCP),
        Attack::new("network", Claim, "serve tcp 0").gap(TCP).landlock_only(),
        Attack::new("network", Claim, "serve unbound 0").gap(TCP).landlock_only(),
        Attack::new("network", Claim, "serve mptcp 0").gap(TCP).landlock_only(),
        Attack::new("network", Claim, "interfaces").gap(TCP),
        unix("unix-connect {out}/stream.sock stream"),
        unix("unix-connect {out}/dgram.sock dgram"),
        unix("unix-connect {out}/seq.sock seqpacket"),
        unix("unix-connect @{token}-stream stream"),
        unix("unix-connect @{token}-dgram dgram"),
        unix("unix-sendto {out}/dgram.sock"),
        unix("unix-sendto @{token}-dgram"),
        unix("scm-rights {out}/stream.sock"),
        unix("uring-connect unix {out}/stream.sock"),
        unix("unix-connect {ws}/way-out/stream.sock stream"),
    ];
    for how in ["connect", "sendto", "sendmsg", "sendmmsg"] {
        all.push(unix(&format!("socketpair-reaim {{out}}/dgram.sock {how}")));
        all.push(unix(&format!("socketpair-reaim @{{token}}-dgram {how}")));
    }
    let claim = |args: &str| Attack::new("family", Claim, args);
    all.extend([
        claim("socket 40 1 0"),
        claim("socket 40 2 0").nobody("vsock has no datagrams here"),
        claim("socket-high 40 1 0"),
        claim("vsock"),
        claim("uring-socket 40"),
        claim("socket 17 3 768").root(),
        claim("socket 17 2 768").root(),
        claim("socket-high 17 3 768").root(),
        claim("socket 2 3 255").root(),
        claim("socket 2 3 1").root(),
        claim("socket 10 3 58").root(),
        claim("socket 38 5 0").nobody("this kernel has no AF_ALG"),
        claim("socket 44 3 0").root(),
        claim("socket 15 3 2").nobody("no AF_KEY in this kernel"),
        claim("netlink-bind 9 1").root(),
        claim("netlink-bind 15 1").landlock_only().gap(TCP),
        claim("netlink-setlink").root().own("-n"),
        claim("socket 31 3 1").nobody("no Bluetooth in this kernel"),
        claim("socket 29 3 1").nobody("no CAN in this kernel"),
        claim("socket 30 1 0").nobody("no TIPC in this kernel"),
        claim("socket 21 5 0").nobody("no RDS in this kernel"),
        claim("socket 43 1 0").nobody("no SMC in this kernel"),
        claim("socket 39 1 1").nobody("no NFC in this kernel"),
        claim("socket 41 5 0").nobody("no KCM in this kernel"),
        claim("socket 3 2 0").nobody("no AX.25 in this kernel"),
        claim("socket 9 5 0").nobody("no X.25 in this kernel"),
        claim("socket 24 1 0").nobody("no PPPoX in this kernel"),
    ]);
    all
}

pub(crate) const CONTROLS: &[Control] = &[
    control(
        "unix",
        "sh:python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\"'",
    ),
    control(
        "unix",
        "sh:python3 -c 'import socket, os; s = socket.socket(socket.AF_UNIX); s.bind(\"{scratch}/srv\"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"{scratch}/srv\")'",
    ),
    control("network", "sh:true | cat"),
    control(
        "family",
        "sh:python3 -c 'import multiprocessing as m; q = m.Pipe(); q[0].send(1); assert q[1].recv() == 1'",
    ),
];
