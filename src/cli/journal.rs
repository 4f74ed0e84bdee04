//! `stockade journal show` and `verify`.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stockade::approval::escape_line;
use stockade::journal::{Answer, Command, Ended, Entry, Filter, Follow, Record, read_all, verify};

use super::args::{JournalCommand, ShowArgs, VerifyJournalArgs};
use super::exit::Failure;
use super::exit::say;

/// How often a followed journal is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Shows or verifies.
pub(crate) fn journal(command: &JournalCommand) -> Result<ExitCode, Failure> {
    match command {
        JournalCommand::Show(args) => show(args),
        JournalCommand::Verify(args) => check(args),
    }
}

fn cannot_read(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::cannot(format!("journal {}: {error}", path.display()))
}

fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let filter = Filter { session: args.session.clone(), mode: args.mode, denied: args.denied, since: args.since };
    let out = io::stdout();
    // Opened first, so that nothing is appended unseen between reading and following.
    let mut follow = match args.follow {
        true => Some(Follow::open(&args.file, true).map_err(cannot_read(&args.file))?),
        false => None,
    };
    let ended = if args.json { HashSet::new() } else { ended(&args.file)? };
    let mut written = Ok(());
    let (mut last, mut foreign) = (None, 0_u64);
    read_all(&args.file, |line, record| {
        last = record.as_ref().map_or(last, |record| Some(record.seq));
        foreign += u64::from(record.is_err());
        let told_later = record.as_ref().is_ok_and(|record| ended.contains(&record.seq));
        if written.is_ok() && !told_later {
            written = print(&mut out.lock(), line, record, &filter, args.json);
        }
    })
    .map_err(cannot_read(&args.file))?;
    say_foreign(&args.file, foreign, last.is_some())?;
    while let (Ok(()), Some(follow)) = (&written, &mut follow) {
        match follow.next_line().map_err(cannot_read(&args.file))? {
            Some(line) => {
                let record = serde_json::from_slice::<Record>(&line);
                // What was read already may be met again.
                if !record.as_ref().is_ok_and(|record| last.is_some_and(|last| record.seq <= last)) {
                    say_foreign(&args.file, u64::from(record.is_err()), true)?;
                    written = print(&mut out.lock(), &String::from_utf8_lossy(&line), record, &filter, args.json);
                }
            }
            None => std::thread::sleep(LOOK_AGAIN),
        }
    }
    match written {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::cannot(format!("the journal cannot be shown: {error}"))),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Says how many lines were no records, once; where none was, this is no journal.
fn say_foreign(file: &Path, lines: u64, any_record: bool) -> Result<(), Failure> {
    match lines {
        0 => {}
        _ if !any_record => {
            return Err(Failure::cannot(format!("{}: no journal: no line is a record", file.display())));
        }
        1 => say!("stockade: a line is no record; `stockade journal verify {}` says which", file.display()),
        n => say!("stockade: {n} lines are no records; `stockade journal verify {}` says which", file.display()),
    }
    Ok(())
}

/// Numbers of the records of beginnings and questions whose end or answer is recorded too: people need not read both.
fn ended(file: &Path) -> Result<HashSet<u64>, Failure> {
    let mut ended = HashSet::new();
    let read = read_all(file, |_, record| match record {
        Ok(Record { entry: Entry::Ended(end), .. }) => ended.extend(end.started),
        Ok(Record { entry: Entry::Approval(approval), .. }) => ended.extend(approval.asked),
        _ => {}
    });
    read.map_err(cannot_read(file)).map(|()| ended)
}

fn print(
    out: &mut impl Write,
    line: &str,
    record: Result<Record, serde_json::Error>,
    filter: &Filter,
    json: bool,
) -> io::Result<()> {
    match record {
        Ok(record) if !filter.admits(&record) => Ok(()),
        Ok(_) if json => writeln!(out, "{line}").and_then(|()| out.flush()),
        Ok(record) => write!(out, "{}", shown(&record)).and_then(|()| out.flush()),
        // Counted by the caller.
        Err(_) => Ok(()),
    }
}

/// One record for people: a line, and one below it for each denial.
fn shown(record: &Record) -> String {
    let time = record.time.strftime("%Y-%m-%d %H:%M:%SZ");
    let session = record.session.as_deref().map(|session| format!(" [{}]", escape_line(session))).unwrap_or_default();
    match &record.entry {
        Entry::Started(run) => {
            let mode = run.mode.map_or("unconfined", |mode| mode.as_str());
            format!("{time}{session} {mode} started  {}\n", command(&run.command))
        }
        Entry::Ended(ended) => {
            let mode = ended.run.mode.map_or("unconfined", |mode| mode.as_str());
            let mut text = format!("{time}{session} {mode} {}  {}\n", outcome(ended), command(&ended.run.command));
            for denial in &ended.denials {
                let weight = if denial.blocking { "denied" } else { "denied in passing" };
                text.push_str(&format!("    {weight} {} {}\n", denial.kind, escape_line(&denial.target())));
            }
            text
        }
        Entry::Asked(question) => {
            let asks = escape_line(&question.asks.to_string());
            let command = command(&question.command);
            format!("{time}{session} {} approval asked, no answer: {asks}  {command}\n", question.mode)
        }
        Entry::Approval(approval) => {
            let answer = match &approval.answer {
                Answer::AllowedOnce => "allowed once".to_owned(),
                Answer::Rejected { reason: None } => "rejected".to_owned(),
                Answer::Rejected { reason: Some(reason) } => format!("rejected ({})", escape_line(reason)),
                Answer::Cancelled => "withdrawn".to_owned(),
                Answer::Unavailable { reason } => format!("nobody to ask ({})", escape_line(reason)),
            };
            let question = &approval.question;
            let asks = escape_line(&question.asks.to_string());
            format!("{time}{session} {} approval {answer}: {asks}  {}\n", question.mode, command(&question.command))
        }
        Entry::Repaired(repair) => format!("{time}{session} journal repaired: {}\n", escape_line(&repair.found)),
        _ => format!("{time}{session} a record of a later version\n"),
    }
}

fn outcome(ended: &Ended) -> String {
    let took = ended.duration_ms.map(|ms| format!(" in {ms:.0} ms")).unwrap_or_default();
    if let Some(failure) = &ended.failure {
        return format!("failed ({})", escape_line(failure));
    }
    let how = match (ended.exit_code, &ended.signal) {
        _ if ended.timed_out => "timed out".to_owned(),
        _ if ended.aborted => "cancelled".to_owned(),
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("killed by {signal}"),
        (None, None) => "ended".to_owned(),
    };
    format!("{how}{took}")
}

fn command(command: &Command) -> String {
    match command {
        Command::Shell(text) => escape_line(text),
        Command::Program(arguments) => {
            let arguments: Vec<_> = arguments.iter().map(|argument| escape_line(argument)).collect();
            arguments.join(" ")
        }
    }
}

fn check(args: &VerifyJournalArgs) -> Result<ExitCode, Failure> {
    let report = verify(&args.file, args.known.as_deref()).map_err(cannot_read(&args.file))?;
    let mut text = String::new();
    if args.json {
        text = serde_json::to_string(&report)
            .map_err(|error| Failure::cannot(format!("the report cannot be written as JSON: {error}")))?;
        text.push('\n');
    } else {
        for finding in &report.findings {
            let (file, line) = (finding.file.display(), finding.line);
            text.push_str(&format!("{file}:{line}: {}: {}\n", finding.kind.as_str(), escape_line(&finding.what)));
        }
        for note in &report.notes {
            text.push_str(&format!("note: {}\n", escape_line(note)));
        }
        let files = if report.files.len() == 1 { "1 file" } else { &format!("{} files", report.files.len()) };
        let state = match report.findings.len() {
            0 => "the chain is whole".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            n => format!("{n} things are wrong"),
        };
        text.push_str(&format!("{} records in {files}: {state}\n", report.records));
        text.push_str(&format!("last: record {}, hash {}\n", report.last_seq, report.last_hash));
    }
    let written = io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Failure::cannot(format!("the report cannot be written: {error}")))?;
    Ok(ExitCode::from(u8::from(!report.findings.is_empty())))
}

/// A moment, or how long ago.
pub(crate) fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // The shortest of all has no counterpart: `abs` would panic.
    let ago = text.parse::<SignedDuration>().ok();
    let ago = ago.and_then(|ago| if ago.is_negative() { ago.checked_neg() } else { Some(ago) });
    let moment = ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    moment.ok_or_else(|| "give a moment (2026-03-01T10:00:00Z) or how long ago (2h, 30m, 1h 15m)".to_owned())
}
