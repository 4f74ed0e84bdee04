//! The name server of a sandbox with a network of its own: it refuses every question at once and tells the host what was
//! asked.
//!
//! Without it a resolver asks a server that is not there: some wait for its answer, and what reaches the trace is the
//! server's address, not the name. Init answers because it is there already, and waits anyway; it understands no more of
//! a question than where its name ends.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};

/// The port of the domain name system (RFC 1035, 4.2).
const PORT: u16 = 53;
/// A question and its header fit (RFC 1035, 4.2.1).
const MAX_DATAGRAM: usize = 512;
const HEADER: usize = 12;
/// Behind a name: its end, type and class.
const AFTER_NAME: usize = 5;
/// Bit of the header's third byte: this is an answer.
const ANSWER: u8 = 0x80;
/// Of the third byte's bits an answer repeats: the operation, and whether recursion was wanted.
const REPEATED: u8 = 0x79;
/// Answer code 5: the server refuses.
const REFUSED: u8 = 5;
/// Different names that are told. What a command asks beyond them is refused as well.
const MAX_TOLD: usize = 32;
/// Questions answered before signals and the host are listened to again.
const BATCH: usize = 16;

/// The socket, and what was told.
#[derive(Debug)]
pub(super) struct NameServer {
    socket: UdpSocket,
    told: BTreeSet<Vec<u8>>,
}

impl NameServer {
    /// At an address of the network namespace's loopback. `None` where this process may not have the port: look-ups then
    /// fail by there being no server.
    pub(super) fn open(address: Ipv4Addr) -> Option<Self> {
        let socket = UdpSocket::bind((address, PORT)).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, told: BTreeSet::new() })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Answers what has arrived; `tell` gets each question whose name is new.
    pub(super) fn answer(&mut self, mut tell: impl FnMut(&[u8])) {
        let mut buffer = [0; MAX_DATAGRAM];
        for _ in 0..BATCH {
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else { return };
            let Some(question) = Question::at_the_start_of(&buffer[..length]) else { continue };
            if self.told.len() < MAX_TOLD && self.told.insert(question.name().to_ascii_lowercase()) {
                tell(question.0);
            }
            // Who does not wait for the answer does not need it.
            if let Err(error) = self.socket.send_to(&question.refusal(), from) {
                tracing::debug!(%error, "a look-up could not be answered");
            }
        }
    }
}

/// A header and one question, without what may follow.
struct Question<'d>(&'d [u8]);

impl<'d> Question<'d> {
    /// `None` for anything that is no question.
    fn at_the_start_of(datagram: &'d [u8]) -> Option<Self> {
        let end = datagram.get(HEADER..)?.iter().position(|&byte| byte == 0)?;
        let whole = datagram.get(..HEADER + end + AFTER_NAME)?;
        (datagram[2] & ANSWER == 0).then_some(Self(whole))
    }

    /// As it is encoded.
    fn name(&self) -> &'d [u8] {
        &self.0[HEADER..self.0.len() - AFTER_NAME]
    }

    /// The same header and question, marked as the answer.
    fn refusal(&self) -> Vec<u8> {
        let mut answer = self.0.to_vec();
        answer[2] = answer[2] & REPEATED | ANSWER;
        answer[3] = REFUSED;
        // One question, no records.
        answer[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a resolver asks, with an EDNS record behind the question.
    fn query(name: &[u8]) -> Vec<u8> {
        [&[0x12, 0x34, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 1], name, &[0, 0, 1, 0, 1], &[0, 0, 41, 5, 0, 0, 0, 0, 0, 0, 0]]
            .concat()
    }

    /// On a port that everybody may have.
    fn server_and_client() -> (NameServer, UdpSocket) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(socket.local_addr().unwrap()).unwrap();
        (NameServer { socket, told: BTreeSet::new() }, client)
    }

    #[test]
    fn a_question_is_refused_and_told_once() {
        let (mut server, client) = server_and_client();
        let mut told = Vec::new();
        for name in [&b"\x01a\x04test"[..], b"\x01A\x04TEST", b"\x01b\x04test"] {
            client.send(&query(name)).unwrap();
            server.answer(|question| told.push(question.to_vec()));
            let mut answer = [0; 600];
            let length = client.recv(&mut answer).unwrap();
            let right = [&[0x12, 0x34, 0x81, 5, 0, 1, 0, 0, 0, 0, 0, 0], name, &[0, 0, 1, 0, 1]].concat();
            assert_eq!(answer[..length], right);
        }
        let names: Vec<_> = told.iter().map(|question| Question::at_the_start_of(question).unwrap().name()).collect();
        assert_eq!(names, [&b"\x01a\x04test"[..], b"\x01b\x04test"]);
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let good = query(b"\x01a");
        let mut answer = good.clone();
        answer[2] |= ANSWER;
        for bad in [&[][..], &good[..11], &good[..14], &good[..HEADER + 6], &answer] {
            assert!(Question::at_the_start_of(bad).is_none(), "{bad:?}");
        }
        assert!(Question::at_the_start_of(&good).is_some(), "the control");
    }

    #[test]
    fn the_list_of_the_told_is_bounded() {
        let (mut server, client) = server_and_client();
        let mut told = 0;
        for turn in 0..100 {
            client.send(&query(&[2, turn + 1, b'x'])).unwrap();
            server.answer(|_| told += 1);
        }
        assert_eq!((told, server.told.len()), (MAX_TOLD, MAX_TOLD));
    }
}
