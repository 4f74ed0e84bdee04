//! The report as one page: no scripts, nothing fetched, light and dark, fit for paper and for a telephone.

#![forbid(unsafe_code)]

use super::page::{Page, escaped};
use super::{enforcement, evidence, gaps, name, outcome};
use crate::doctor::Feature;
use crate::verify::cell::Group;
use crate::verify::judge::Status;
use crate::verify::report::{CellReport, CellResult, ModeReport, Report};

/// The whole page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut page = Page::begin("stockade verify");
    header(&mut page, report);
    modes(&mut page, report);
    findings(&mut page, report);
    named_gaps(&mut page, report);
    matrix(&mut page, report);
    features(&mut page, report);
    policies(&mut page, report);
    legend(&mut page);
    page.end()
}

fn header(page: &mut Page, report: &Report) {
    let who = if report.host.uid == 0 { "root".to_owned() } else { format!("uid {}", report.host.uid) };
    let class = if report.kept { "verdict good" } else { "verdict bad" };
    page.raw("<header><h1>stockade verify</h1>");
    page.element("p", class, &report.verdict());
    page.raw("<dl class=\"facts\">");
    let seconds = format!("{}.{} s", report.duration_ms / 1000, report.duration_ms % 1000 / 100);
    let facts = [
        ("Kernel", format!("Linux {}", report.host.kernel)),
        ("User", who),
        ("Version", report.version.to_owned()),
        ("Begun", report.began.clone()),
        ("Took", seconds),
        ("Cells", format!("{} under {} modes", report.cells.len(), report.modes.len())),
    ];
    for (term, text) in facts {
        page.raw("<div>");
        page.element("dt", "", term);
        page.element("dd", "", &text);
        page.raw("</div>");
    }
    page.raw("</dl></header>");
    page.raw("<nav><a href=\"#matrix\">Matrix</a><a href=\"#host\">Host</a><a href=\"#policy\">Policy</a>");
    page.raw("<a href=\"#words\">Words</a></nav>");
}

fn modes(page: &mut Page, report: &Report) {
    page.raw("<section class=\"modes\">");
    for mode in &report.modes {
        let class = match mode.gaps.is_empty() {
            _ if mode.refused.is_some() || mode.counts.broken > 0 => "bad",
            true => "good",
            false => "partial",
        };
        page.raw(&format!("<article class=\"card {class}\">"));
        page.element("h2", "", mode.mode.as_str());
        match (&mode.refused, mode.enforcement) {
            (Some(why), _) => page.element("p", "", &format!("Cannot run: {why}")),
            (None, level) => {
                let level = level.map_or("unknown", enforcement);
                page.element("p", "", &format!("{level}, by {}", mode.backend));
                page.element("p", "counts", &counted(mode));
            }
        }
        page.raw("</article>");
    }
    page.raw("</section>");
}

fn counted(mode: &ModeReport) -> String {
    let counts = &mode.counts;
    let mut text = format!("{} kept, {} in gaps, {} not kept", counts.kept, counts.gap, counts.broken);
    for (count, what) in [(counts.not_promised, "not promised"), (counts.not_here, "not to be had on this host")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

fn findings(page: &mut Page, report: &Report) {
    let broken: Vec<(&CellReport, &CellResult)> = report
        .cells
        .iter()
        .flat_map(|cell| cell.results.iter().map(move |result| (cell, result)))
        .filter(|(_, result)| result.status == Status::Broken)
        .collect();
    if broken.is_empty() {
        return;
    }
    page.raw("<section><h2>Not kept</h2><ul class=\"findings\">");
    for (cell, result) in broken {
        page.raw("<li>");
        page.element("strong", "", &name(cell));
        page.text(&format!(
            " under {}: {}, and {} was promised. ",
            result.mode,
            outcome(result),
            result.expected.as_str()
        ));
        page.element("span", "evidence", &evidence(result));
        page.raw("</li>");
    }
    page.raw("</ul></section>");
}

fn named_gaps(page: &mut Page, report: &Report) {
    let gaps = gaps(report);
    page.raw("<section><h2>Gaps</h2>");
    if gaps.is_empty() {
        page.element("p", "", "None: this host lets every promise be kept.");
    } else {
        page.element("p", "", "What this host does not let stockade keep. Each result of a command names these.");
        page.raw("<dl class=\"gaps\">");
        for (gap, modes, meaning) in gaps {
            page.element("dt", "", &format!("{} ({modes})", gap.as_str()));
            page.element("dd", "", meaning);
        }
        page.raw("</dl>");
    }
    page.raw("</section>");
}

fn matrix(page: &mut Page, report: &Report) {
    page.raw("<section id=\"matrix\"><h2>Matrix</h2>");
    let modes: Vec<&str> =
        report.modes.iter().filter(|mode| mode.refused.is_none()).map(|mode| mode.mode.as_str()).collect();
    for group in Group::ALL {
        let cells: Vec<&CellReport> = report.cells.iter().filter(|cell| cell.group == group).collect();
        if cells.is_empty() {
            continue;
        }
        page.raw("<table>");
        page.element("caption", "", group.title());
        page.raw("<thead><tr><th scope=\"col\">Operation</th>");
        for mode in &modes {
            page.raw(&format!("<th scope=\"col\">{}</th>", escaped(mode)));
        }
        page.raw("<th scope=\"col\">without stockade</th></tr></thead><tbody>");
        for cell in cells {
            row(page, cell);
        }
        page.raw("</tbody></table>");
    }
    page.raw("</section>");
}

fn row(page: &mut Page, cell: &CellReport) {
    page.raw(&format!("<tr id=\"{}\">", escaped(&cell.id)));
    page.raw("<th scope=\"row\">");
    page.text(&name(cell));
    page.raw("</th>");
    for result in &cell.results {
        page.raw(&format!("<td class=\"{}\" data-mode=\"{}\">", class(result.status), result.mode));
        page.element("b", "", &outcome(result));
        page.element("span", "evidence", &evidence(result));
        page.raw("</td>");
    }
    page.raw("<td class=\"control\" data-mode=\"without stockade\">");
    page.element("b", "", cell.control.outcome.as_str());
    page.element("span", "evidence", &cell.control.inside);
    page.raw("</td></tr>");
}

const fn class(status: Status) -> &'static str {
    match status {
        Status::Kept => "kept",
        Status::Gap => "gap",
        Status::Broken => "broken",
        Status::NotPromised | Status::NotHere => "none",
    }
}

fn features(page: &mut Page, report: &Report) {
    let (there, missing): (Vec<&Feature>, Vec<&Feature>) =
        report.host.features.iter().partition(|feature| feature.present);
    page.raw("<section id=\"host\"><h2>This host</h2><h3>There</h3><ul class=\"there\">");
    for feature in there {
        page.raw("<li>");
        page.element("b", "", feature.name);
        page.element("span", "evidence", &feature.found);
        page.raw("</li>");
    }
    page.raw("</ul>");
    if !missing.is_empty() {
        page.raw("<h3>Missing</h3><dl class=\"gaps\">");
    }
    for feature in &missing {
        page.element("dt", "", &format!("{}: {}", feature.name, feature.found));
        for (word, what) in [("Lost", &feature.lost), ("To get it", &feature.remedy)] {
            if let Some(what) = what {
                page.element("dd", "", &format!("{word}: {what}"));
            }
        }
    }
    page.raw(if missing.is_empty() { "</section>" } else { "</dl></section>" });
}

fn policies(page: &mut Page, report: &Report) {
    page.raw("<section id=\"policy\"><h2>Policy in force</h2>");
    page.element("p", "", "${WORKSPACE} is a directory made for this report and thrown away.");
    for mode in &report.modes {
        let policy = &mode.policy;
        page.element("h3", "", mode.mode.as_str());
        let mut words = format!("Network: {}.", network(policy.network));
        if !policy.hosts.is_empty() {
            words.push_str(&format!(" Allowed: {}.", policy.hosts.join(", ")));
        }
        let limits = &policy.limits;
        let set = [
            ("processes", limits.processes),
            ("memory, bytes", limits.memory),
            ("private /tmp, bytes", limits.tmp_size),
            ("open files", limits.open_files),
            ("file size, bytes", limits.file_size),
        ];
        let set: Vec<String> =
            set.iter().filter_map(|(name, value)| value.map(|value| format!("{name}: {value}"))).collect();
        if !set.is_empty() {
            words.push_str(&format!(" Limits: {}.", set.join("; ")));
        }
        page.element("p", "", &words);
        let (missing, there): (Vec<_>, Vec<_>) = policy.rules.iter().partition(|rule| rule.missing);
        page.raw("<ul class=\"rules\">");
        for rule in there {
            page.element("li", "", &rule.to_string());
        }
        page.raw("</ul>");
        page.element("p", "", &format!("And {} rules about paths that do not exist here.", missing.len()));
    }
    page.raw("</section>");
}

const fn network(mode: crate::policy::NetworkMode) -> &'static str {
    match mode {
        crate::policy::NetworkMode::Off => "off, a loopback of its own",
        crate::policy::NetworkMode::Allowlist => "named hosts only, through a proxy",
        crate::policy::NetworkMode::Full => "full, the host's",
    }
}

/// What the words of the table mean.
const WORDS: &[(&str, &str)] = &[
    ("lands", "It does on the host what it says. For a system call: the kernel gets to see it."),
    ("refused", "It fails, and the host is as it was."),
    ("private", "It succeeds in a place that is the sandbox's own, and the host is as it was."),
    ("gap", "The promise is not kept here, and every result of a command says so by this name."),
    (
        "NOT KEPT",
        "The promise is not kept here, and nothing says so. This is a fault, or a policy that gives more than the mode promises.",
    ),
    ("not promised", "The policy in force promises nothing of it."),
    ("not on this host", "It should work and does not, with or without stockade."),
    ("unclear", "What the command says of itself and what the host shows do not agree."),
    ("no-answer", "The command never came to it."),
    (
        "without stockade",
        "The control: the same operation by the same user with nothing around it. Where it is refused too, the refusal beside it proves less.",
    ),
];

fn legend(page: &mut Page) {
    page.raw("<section id=\"words\"><h2>Words</h2><dl class=\"gaps\">");
    for (word, meaning) in WORDS {
        page.element("dt", "", word);
        page.element("dd", "", meaning);
    }
    page.raw("</dl></section>");
}
