//! The journal: what is appended is found again, and whatever somebody does to it afterwards is found too.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may, and says what it found")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stockade::executor::{CommandLine, ExecRequest};
use stockade::journal::*;
use stockade::policy::SandboxMode;

fn run(text: &str) -> Run {
    let command = Command::masked(&CommandLine::Shell(text.to_owned()), &Masker::default());
    Run { command, workdir: "/w".into(), mode: Some(SandboxMode::ReadOnly), policy_digest: Some("d".into()) }
}

fn settings(max_bytes: u64) -> JournalSettings {
    JournalSettings { max_bytes, sync: false }
}

fn filled(dir: &Path, records: usize, max_bytes: u64) -> PathBuf {
    let path = dir.join("journal.jsonl");
    let journal = Journal::open(&path, settings(max_bytes)).unwrap();
    for number in 0..records {
        journal.append(Some("s1"), Entry::Started(run(&format!("echo {number}")))).unwrap();
    }
    path
}

fn kinds(path: &Path) -> Vec<FindingKind> {
    verify(path, None).unwrap().findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn an_untouched_journal_is_intact_across_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 50, 2000);
    let report = verify(&path, None).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.records, report.last_seq), (50, 50));
    assert!(report.files.len() > 3, "{:?}", report.files);
    for file in &report.files {
        assert!(fs::metadata(file).unwrap().len() <= 2000);
    }
    let mut seqs = Vec::new();
    read_all(&path, |_, record| seqs.push(record.unwrap().seq)).unwrap();
    assert_eq!(seqs, (1..=50).collect::<Vec<_>>());
    assert_eq!(verify(&path, Some(&report.last_hash)).unwrap().findings, []);
    assert_eq!(verify(&path, Some("0123")).unwrap().findings.len(), 1);
}

#[test]
fn it_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 1, 1 << 20);
    for file in [path.clone(), dir.path().join("journal.jsonl.head")] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn many_writers_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let journal = Journal::open(path, settings(3000)).unwrap();
                for number in 0..40 {
                    journal.append(Some("s"), Entry::Started(run(&format!("{writer}-{number}")))).unwrap();
                }
            });
        }
    });
    let report = verify(&path, None).unwrap();
    assert_eq!((report.findings, report.records), (Vec::new(), 320));
}

#[test]
fn a_torn_last_line_is_repaired_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 3, 1 << 20);
    let whole = fs::read(&path).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":4,\"ti").unwrap();
    assert_eq!(kinds(&path), [FindingKind::Torn]);
    let journal = Journal::open(&path, settings(1 << 20)).unwrap();
    journal.append(None, Entry::Started(run("next"))).unwrap();
    let report = verify(&path, None).unwrap();
    assert_eq!(report.findings, [], "a crash is no tampering");
    assert_eq!((report.records, report.notes.len()), (5, 1));
    assert!(fs::read(&path).unwrap().starts_with(&whole), "what was whole is kept as it was");
}

#[test]
fn a_crash_between_record_and_head_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 3, 1 << 20);
    let head = dir.path().join("journal.jsonl.head");
    let before = fs::read(&head).unwrap();
    let journal = Journal::open(&path, settings(1 << 20)).unwrap();
    journal.append(None, Entry::Started(run("a"))).unwrap();
    fs::write(&head, before).unwrap();
    assert_eq!(kinds(&path), []);
    journal.append(None, Entry::Started(run("b"))).unwrap();
    let report = verify(&path, None).unwrap();
    assert_eq!((report.findings, report.records), (Vec::new(), 5));
}

#[test]
fn losses_that_no_crash_explains_stay_visible_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 5, 1 << 20);
    let text = fs::read_to_string(&path).unwrap();
    let cut: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(&path, cut).unwrap();
    assert_eq!(kinds(&path), [FindingKind::Lost]);
    let journal = Journal::open(&path, settings(1 << 20)).unwrap();
    journal.append(None, Entry::Started(run("later"))).unwrap();
    assert_eq!(kinds(&path), [FindingKind::Lost]);
    fs::remove_file(&path).unwrap();
    Journal::open(&path, settings(1 << 20)).unwrap().append(None, Entry::Started(run("anew"))).unwrap();
    assert_eq!(kinds(&path), [FindingKind::Lost]);
    fs::remove_file(dir.path().join("journal.jsonl.head")).unwrap();
    assert!(kinds(&path).contains(&FindingKind::Lost), "without its head nobody can tell");
}

#[test]
fn a_missing_rotated_file_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 50, 2000);
    fs::remove_file(dir.path().join("journal.jsonl.2")).unwrap();
    assert_eq!(kinds(&path), [FindingKind::Lost]);
    let report = verify(&path, None).unwrap();
    assert!(report.findings[0].file.ends_with("journal.jsonl.3"), "{report:?}");
    assert_eq!(report.findings[0].line, 1);
}

#[test]
fn a_foreign_file_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "dear diary\n").unwrap();
    assert!(matches!(Journal::open(&path, settings(1 << 20)), Err(JournalError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "dear diary\n");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Journal::open(&link, settings(1 << 20)).is_err());
}

#[test]
fn filters_select() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let journal = Journal::open(&path, settings(1 << 20)).unwrap();
    journal.append(Some("a"), Entry::Started(run("one"))).unwrap();
    let wide = Run { mode: Some(SandboxMode::WorkspaceWrite), ..run("two") };
    let second = journal.append(Some("b"), Entry::Started(wide)).unwrap();
    let shown = |filter: &Filter| {
        let mut seqs = Vec::new();
        read_all(&path, |_, record| seqs.extend(record.ok().filter(|r| filter.admits(r)).map(|r| r.seq))).unwrap();
        seqs
    };
    assert_eq!(shown(&Filter::default()), [1, 2]);
    assert_eq!(shown(&Filter { session: Some("b".into()), ..Filter::default() }), [2]);
    assert_eq!(shown(&Filter { mode: Some(SandboxMode::ReadOnly), ..Filter::default() }), [1]);
    assert_eq!(shown(&Filter { denied: true, ..Filter::default() }), [0_u64; 0]);
    assert_eq!(shown(&Filter { since: Some(second.time), ..Filter::default() }), [2]);
}

#[test]
fn following_sees_what_is_appended_across_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 2, 1 << 20);
    let mut follow = Follow::open(&path, true).unwrap();
    assert_eq!(follow.next_line().unwrap(), None);
    let journal = Journal::open(&path, settings(600)).unwrap();
    for number in 0..3 {
        journal.append(None, Entry::Started(run(&format!("n{number}")))).unwrap();
        let line = follow.next_line().unwrap().expect("the line is there");
        let record: Record = serde_json::from_slice(&line).unwrap();
        assert_eq!(record.seq, 3 + number);
    }
    // Several files at once, between two looks.
    for number in 3..30 {
        journal.append(None, Entry::Started(run(&format!("n{number}")))).unwrap();
    }
    let mut seen = Vec::new();
    while let Some(line) = follow.next_line().unwrap() {
        seen.push(serde_json::from_slice::<Record>(&line).unwrap().seq);
    }
    assert_eq!(seen, (6..33).collect::<Vec<_>>());
}

/// Whoever verifies or reads while others write sees a whole journal, of one moment.
#[test]
fn readers_beside_writers_find_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), 1, 2000);
    let mut follow = Follow::open(&path, false).unwrap();
    let written = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let journal = Journal::open(&path, settings(2000)).unwrap();
            for number in 0..400 {
                journal.append(None, Entry::Started(run(&format!("{number}")))).unwrap();
            }
            written.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut seen = 0;
        loop {
            let last = written.load(std::sync::atomic::Ordering::Acquire);
            assert_eq!(kinds(&path), []);
            while let Some(line) = follow.next_line().unwrap() {
                seen += 1;
                assert_eq!(serde_json::from_slice::<Record>(&line).unwrap().seq, seen);
            }
            if last {
                break;
            }
        }
        assert_eq!(seen, 401);
    });
}

#[test]
fn the_secrets_of_a_command_never_reach_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let journal = Journal::open(&path, settings(1 << 20)).unwrap();
    let request =
        ExecRequest::shell("API_TOKEN=hush-hush curl -H 'Authorization: Bearer hush-hush' https://u:hush-hush@h");
    let command = Command::masked(&request.command, &Masker::default());
    journal.append(None, Entry::Started(Run { command, ..run("") })).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hush-hush") && text.contains("curl"), "{text}");
}

/// Something that somebody does to the lines of a journal.
#[derive(Debug, Clone)]
enum Tampering {
    Flip { line: usize, byte: usize },
    Remove(usize),
    Swap(usize, usize),
    Repeat(usize),
    Insert(usize),
}

fn tampering(lines: usize) -> impl Strategy<Value = Tampering> {
    prop_oneof![
        (0..lines, 0..5000_usize).prop_map(|(line, byte)| Tampering::Flip { line, byte }),
        (0..lines).prop_map(Tampering::Remove),
        (0..lines, 0..lines).prop_filter("two lines", |(a, b)| a != b).prop_map(|(a, b)| Tampering::Swap(a, b)),
        (0..lines).prop_map(Tampering::Repeat),
        (0..lines).prop_map(Tampering::Insert),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_edit_loss_or_reordering_is_found_and_placed(what in tampering(12)) {
        let dir = tempfile::tempdir().unwrap();
        let path = filled(dir.path(), 12, 1 << 20);
        prop_assert_eq!(kinds(&path), []);
        let text = fs::read(&path).unwrap();
        let mut lines: Vec<Vec<u8>> = text.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        let first = match &what {
            Tampering::Flip { line, byte } => {
                let at = byte % (lines[*line].len() - 1);
                lines[*line][at] ^= 2;
                *line
            }
            Tampering::Remove(line) => { lines.remove(*line); *line }
            Tampering::Swap(a, b) => { lines.swap(*a, *b); *a.min(b) }
            Tampering::Repeat(line) => { let copy = lines[*line].clone(); lines.insert(line + 1, copy); line + 1 }
            Tampering::Insert(line) => { lines.insert(*line, b"{}\n".to_vec()); *line }
        };
        fs::write(&path, lines.concat()).unwrap();
        let report = verify(&path, None).unwrap();
        prop_assert!(!report.findings.is_empty(), "{:?}", what);
        let line = u64::try_from(first).unwrap() + 1;
        let said = report.findings[0].line;
        // Losing the last line shows at the end of what is left.
        prop_assert!(said == line || (said + 1 == line && first == 11), "{:?}: {:?}", what, report.findings);
    }
}
