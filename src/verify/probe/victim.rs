//! A process of the host that is there to be attacked.

#![forbid(unsafe_code)]

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{PTracer, set_ptracer};

use crate::verify::facts::{NEW, OLD, Victim};

/// Says where its secrets are, and ends when its standard input does. Whatever asks afterwards whether it was written
/// to sends a byte and gets one back.
pub(super) fn wait_to_be_attacked(token: &str) -> io::Result<()> {
    // Yama lets only ancestors trace by default; where there is no Yama there is nothing to set.
    if let Err(errno) = set_ptracer(PTracer::Any)
        && errno != rustix::io::Errno::INVAL
    {
        return Err(errno.into());
    }
    let secret = token.to_owned().into_bytes();
    let written = OLD.as_bytes().to_vec();
    let mut held = std::fs::File::from(memfd_create("held", MemfdFlags::CLOEXEC)?);
    held.write_all(token.as_bytes())?;
    held.seek(SeekFrom::Start(0))?;
    let victim = Victim {
        pid: i32::try_from(std::process::id()).map_err(io::Error::other)?,
        secret: secret.as_ptr().addr(),
        written: written.as_ptr().addr(),
        descriptor: held.as_raw_fd(),
    };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(&victim).map_err(io::Error::other)?)?;
    let mut byte = [0];
    while io::stdin().read(&mut byte)? > 0 {
        // What others wrote there the compiler cannot know of, so it is read anew.
        let now = std::hint::black_box(&written);
        stdout.write_all(if now == NEW.as_bytes() { b"y" } else { b"n" })?;
        stdout.flush()?;
    }
    drop(secret);
    Ok(())
}
