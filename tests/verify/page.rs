//! The report as a page: well-formed, complete in itself, and for everybody.

use std::collections::BTreeSet;

use crate::cli::{Prompt, outcome};
use crate::user::User;
use crate::{alone, verify};

/// Elements that have no end tag.
const VOID: &[&str] = &["meta", "br", "hr", "link", "img", "input"];

/// One tag: its name, its attributes, whether it ends an element.
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
    ends: bool,
}

/// Every tag of a page whose style sheet was taken out. Fails where text holds a bare `<`, or an attribute no quotes.
fn tags(html: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a bare > in {text:?}");
        let (tag, after) = after.split_once('>').expect("a tag is closed");
        rest = after;
        if tag.starts_with('!') {
            continue;
        }
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut pairs = Vec::new();
        while let Some((key, value)) = attributes.split_once("=\"") {
            let (value, after) = value.split_once('"').expect("a value is closed");
            pairs.push((key.trim().to_owned(), value.to_owned()));
            attributes = after;
        }
        assert_eq!(attributes.trim(), "", "{tag}");
        found.push(Tag {
            name: name.trim_start_matches('/').to_owned(),
            attributes: pairs,
            ends: name.starts_with('/'),
        });
    }
    found
}

fn check(html: &str) {
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    let (head, after) = html.split_once("<style>").unwrap();
    let (style, body) = after.split_once("</style>").unwrap();
    for needed in ["prefers-color-scheme: dark", "@media print", "max-width"] {
        assert!(style.contains(needed), "{needed}");
    }
    for foreign in ["url(", "@import", "http:", "https:", "expression("] {
        assert!(!style.contains(foreign), "{foreign}");
    }
    let tags = tags(&format!("{head}{body}"));
    let mut open: Vec<&str> = Vec::new();
    let (mut ids, mut targets) = (BTreeSet::new(), Vec::new());
    for tag in &tags {
        assert!(!["script", "iframe", "img", "link", "object", "embed", "form", "base"].contains(&tag.name.as_str()));
        for (key, value) in &tag.attributes {
            assert!(!key.starts_with("on") && key != "src" && key != "style", "{key}={value}");
            match key.as_str() {
                "id" => assert!(ids.insert(value.as_str()), "{value} twice"),
                "href" => targets.push(value.strip_prefix('#').unwrap_or_else(|| panic!("{value} leads elsewhere"))),
                _ => {}
            }
        }
        if tag.ends {
            assert_eq!(open.pop(), Some(tag.name.as_str()));
        } else if !VOID.contains(&tag.name.as_str()) {
            open.push(&tag.name);
        }
    }
    assert!(open.is_empty(), "{open:?} not ended");
    assert!(targets.iter().all(|target| ids.contains(target)) && !targets.is_empty(), "{targets:?}");
    for row in tags.windows(2).filter(|pair| pair[0].name == "tr" && !pair[0].ends) {
        assert_eq!(row[1].name, "th", "every row begins with its heading");
    }
}

#[test]
fn the_page_stands_alone() {
    let _alone = alone();
    for prompt in Prompt::all() {
        for backend in ["namespaces", "landlock"] {
            let file = prompt.work().join("report.html");
            let page = file.display().to_string();
            let (code, out, err) = outcome(&mut verify(&prompt, &["--backend", backend, "--html", &page]));
            assert_eq!((code, err.as_str()), (0, ""), "{out}");
            assert!(out.contains(&page), "{out}");
            let html = std::fs::read_to_string(&file).unwrap();
            check(&html);
            // The host, the policy, each cell, the gaps in words.
            for needed in ["user-namespace", "sockets of the host", "create a file in the workspace"] {
                assert!(html.contains(needed), "{needed}");
            }
            let gap = html.contains("A command can connect to Unix sockets of services on this machine.");
            assert_eq!(gap, backend == "landlock" || html.contains("unix-sockets ("));
        }
    }
}

/// What is wrong stands on the page, and what a hostile name holds does not become part of it.
#[test]
fn hostile_names_stay_text() {
    let _alone = alone();
    let prompt = Prompt::of(User::current());
    let hostile = prompt.work().join("<b onclick=\"x\">&\u{1b}[31m");
    std::fs::create_dir(&hostile).unwrap();
    let file = prompt.work().join("report.html").display().to_string();
    let name = hostile.display().to_string();
    let args = ["--mode", "read-only", "--write", &name, "--html", &file];
    let mut command = prompt.command(prompt.program());
    command.args(["verify", "--workspace"]).arg(&hostile).args(args).env_remove("TMPDIR");
    let (code, out, err) = outcome(&mut command);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let html = std::fs::read_to_string(&file).unwrap();
    check(&html);
    assert!(html.contains("&lt;b onclick=&quot;x&quot;&gt;&amp;") && html.contains("NOT KEPT"));
    assert!(!html.contains('\u{1b}'));
}
