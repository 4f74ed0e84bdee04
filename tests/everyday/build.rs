//! Builds: C with make, Rust with cargo, both offline.

use std::path::PathBuf;
use std::process::Command;

use crate::worker::{Left, Worker};

#[test]
fn c_with_make() {
    for worker in Worker::all() {
        worker.works(
            "printf 'int f(void);\\nint main(void) { return f(); }\\n' >m.c; printf 'int f(void) { return 0; }\\n' >f.c
             printf 'app: m.o f.o\\n\\t$(CC) -o $@ $^\\nclean:\\n\\trm -f app *.o\\n' >Makefile
             make -s -j4; ./app; make -s clean; make -s CFLAGS='-O2 -g -pipe'; ar rcs libf.a f.o; ./app && echo ran >ran",
            &[Left::Bytes("app", 1000), Left::Bytes("libf.a", 100), Left::Text("ran", "ran\n")],
        );
    }
}

/// The toolchain that builds this test, shown to every worker under a name of its own: it may lie in somebody's home.
#[test]
fn rust_with_cargo() {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    for worker in Worker::all() {
        let toolchain = worker.root().join("toolchain");
        std::fs::create_dir(&toolchain).unwrap();
        let bin = toolchain.join("bin");
        let script =
            "cargo new --quiet --vcs git app; cd app; cargo build --quiet --offline; ./target/debug/app >../said
             echo '#[test] fn holds() { std::fs::write(\"../tested\", \"yes\").unwrap(); }' >>src/main.rs
             cargo test --quiet --offline >/dev/null; cargo run --quiet --offline >/dev/null";
        let script = format!("export PATH={}:$PATH CARGO_HOME=$PWD/cargo-home\n{script}", bin.display());
        let left = [
            Left::Bytes("app/target/debug/app", 10_000),
            Left::Text("said", "Hello, world!\n"),
            Left::Text("tested", "yes"),
            Left::Directory("app/.git"),
        ];
        let bind = format!("mount --bind '{}' '{}'", sysroot.display(), toolchain.display());
        worker.works_behind(&["unshare", "--mount", "bash", "-ec", &format!("{bind}; exec \"$@\"")], &script, &left);
    }
}
