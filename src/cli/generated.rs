//! What is generated from the same definitions as the command line itself, and committed so that packages can ship it.
//! To write it anew: `STOCKADE_WRITE_DOCS=1 cargo test --bin stockade generated`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Cli;

/// Every file, with what it must hold.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for (shell, name) in [(Shell::Bash, "stockade.bash"), (Shell::Zsh, "_stockade"), (Shell::Fish, "stockade.fish")] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "stockade", &mut text);
        files.push((Path::new("completions").join(name), text));
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, "stockade", &mut files);
    files
}

/// The manual page of a command, and of each beneath it that is for people.
fn pages(command: &clap::Command, name: &str, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let mut text = Vec::new();
    // A date or a version would make it drift by itself.
    let page = clap_mangen::Man::new(command.clone().version(None::<&str>)).title(name);
    page.date("").source("stockade").manual("stockade").render(&mut text).unwrap();
    files.push((Path::new("docs/man").join(format!("{name}.1")), text));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below, &format!("{name}-{}", below.get_name()), files);
    }
}

#[test]
fn generated_files_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut drifted = Vec::new();
    let mut expected = std::collections::BTreeSet::new();
    for (name, text) in files() {
        let path = root.join(&name);
        if std::env::var_os("STOCKADE_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read(&path).ok().as_deref() != Some(text.as_slice()) {
            drifted.push(name.clone());
        }
        expected.insert(path);
    }
    for directory in ["completions", "docs/man"] {
        for entry in std::fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if !expected.contains(&path) {
                drifted.push(path);
            }
        }
    }
    assert!(drifted.is_empty(), "not what the command line says: {drifted:?}; STOCKADE_WRITE_DOCS=1 writes them anew");
}

#[test]
fn what_is_not_for_people_is_in_no_page_and_no_completion() {
    for (name, text) in files() {
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("probe") && !text.contains(super::guard::NAME), "{}", name.display());
        assert!(!name.starts_with("docs/man") || text.contains(".SH SYNOPSIS"), "{}", name.display());
    }
}
