//! The document as a page: plain HTML without a script, for phones and desktops, light and dark.

use std::fmt::{self, Write as _};

use super::document::{Autoscaler, DecisionEntry, Document, GroupEntry, SourceStatus};
use crate::cloud::text::printable;

const STYLE: &str = include_str!("page.css");

/// Untrusted text, escaped for HTML.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in printable(self.0).chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Renders the page.
pub(super) fn page(document: &Document) -> String {
    let mut html = String::with_capacity(8 * 1024);
    // Writing to a string cannot fail.
    let _infallible = write(&mut html, document);
    html
}

fn write(html: &mut String, document: &Document) -> fmt::Result {
    let (class, state) = match (document.ready, document.standby) {
        (false, _) => ("bad", "not ready"),
        (true, true) => ("quiet", "ready, standby"),
        (true, false) => ("good", "ready"),
    };
    write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Headcount: {state}</title><style>{STYLE}</style></head>\n\
         <body><header><h1>Headcount <small>{}</small></h1><p><strong class=\"{class}\" id=\"state\">{state}</strong> {}\
         <span id=\"autoscaler\">{}</span> <time>{}</time></p></header>\n<main>",
        Text(&document.version),
        if document.read_only { "<strong class=\"warn\">read-only: every write is refused</strong> " } else { "" },
        autoscaler(&document.autoscaler),
        Text(&document.time),
    )?;
    html.write_str("<section id=\"sources\"><h2>Sources</h2>")?;
    document.sources.iter().try_for_each(|source| write_source(html, source))?;
    html.write_str("</section>\n<section id=\"groups\"><h2>Node groups</h2>")?;
    write_groups(html, &document.groups)?;
    html.write_str("</section>\n<section id=\"decisions\"><h2>Last decisions</h2>")?;
    write_decisions(html, &document.decisions)?;
    html.write_str(
        "</section></main>\n<footer><p><a href=\"?format=json\">JSON</a> <a \
            href=\"/metrics\">metrics</a></p></footer></body></html>\n",
    )
}

fn autoscaler(autoscaler: &Autoscaler) -> String {
    let Some(seconds) = autoscaler.age_seconds else {
        return "The Cluster Autoscaler has not called yet.".to_owned();
    };
    let release = autoscaler.dialect.as_ref().map(|dialect| format!(" {}", Text(dialect))).unwrap_or_default();
    format!("The Cluster Autoscaler{release} last called {} ago.", age(seconds))
}

/// A time in its two largest units.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

fn write_source(html: &mut String, source: &SourceStatus) -> fmt::Result {
    let (class, state) = if source.ready { ("good", "readable") } else { ("bad", "cannot be read") };
    let read =
        source.age_seconds.map_or_else(|| "never read".to_owned(), |seconds| format!("read {} ago", age(seconds)));
    write!(html, "<p><b>{}</b> <span class=\"{class}\">{state}</span>, {read}", Text(&source.name))?;
    write!(html, ", every {}", age(source.interval_seconds))?;
    if source.paused_seconds > 0 {
        write!(html, ", <span class=\"warn\">paused for {}</span>", age(source.paused_seconds))?;
    }
    if source.nodes_unmatched > 0 {
        write!(html, ", <span class=\"warn\">{} nodes without a group</span>", source.nodes_unmatched)?;
    }
    html.write_str("</p>")?;
    if let Some(problem) = &source.problem {
        write!(html, "<p class=\"reason bad\">{}</p>", Text(problem))?;
    }
    for (name, reason) in &source.unread_groups {
        let (name, reason) = (Text(name), Text(reason));
        write!(html, "<p class=\"reason bad\">{name} cannot be read and is not served: {reason}</p>")?;
    }
    if source.budgets.is_empty() {
        return Ok(());
    }
    html.write_str("<ul class=\"budgets\">")?;
    for budget in &source.budgets {
        write!(html, "<li>{}", Text(&budget.name))?;
        if let Some(group) = &budget.group {
            write!(html, " of {}", Text(group))?;
        }
        if let Some(remaining) = budget.remaining {
            write!(html, ": {remaining} left")?;
        }
        if budget.paused_seconds > 0 {
            write!(html, ", <span class=\"warn\">suspended for {}</span>", age(budget.paused_seconds))?;
        }
        html.write_str("</li>")?;
    }
    html.write_str("</ul>")
}

const COLUMNS: [&str; 9] = ["min", "max", "target", "desired", "live", "creating", "deleting", "failed", "age"];

fn write_groups(html: &mut String, groups: &[GroupEntry]) -> fmt::Result {
    if groups.is_empty() {
        return html.write_str("<p>No node group is served.</p>");
    }
    html.write_str("<table><thead><tr><th>group</th>")?;
    COLUMNS.iter().try_for_each(|column| write!(html, "<th>{column}</th>"))?;
    html.write_str("</tr></thead><tbody>")?;
    for group in groups {
        let GroupEntry { min, max, target, desired, live, creating, deleting, failed, .. } = group;
        write!(html, "<tr><th scope=\"row\">{} <small>{}</small></th>", Text(&group.id), Text(&group.source))?;
        let sizes = [min, max, target, desired, live, creating, deleting, failed];
        for (column, size) in COLUMNS.iter().zip(sizes) {
            let class = match *column {
                "failed" if *size > 0 => " class=\"bad\"",
                "creating" | "deleting" if *size > 0 => " class=\"warn\"",
                _ if *size == 0 => " class=\"quiet\"",
                _ => "",
            };
            write!(html, "<td data-label=\"{column}\"{class}>{size}</td>")?;
        }
        write!(html, "<td data-label=\"age\">{}</td></tr>", age(group.age_seconds))?;
        let notes = notes(group);
        if !notes.is_empty() {
            write!(html, "<tr class=\"notes\"><td colspan=\"{}\">{notes}</td></tr>", COLUMNS.len() + 1)?;
        }
    }
    html.write_str("</tbody></table>")
}

fn notes(group: &GroupEntry) -> String {
    let mut notes = String::new();
    let mut note = |class: &str, label: &str, text: String| {
        let _infallible = write!(notes, "<p><span class=\"{class}\">{label}</span> {text}</p>");
    };
    for operation in &group.operations {
        let text = format!("{} {}, {} ago", Text(&operation.id), Text(&operation.what), age(operation.age_seconds));
        note("warn", &operation.kind, text);
    }
    if group.unfilled > 0 {
        let text = format!("{} of the capacity of {} that no VM fills", group.unfilled, group.desired);
        note("warn", "unfilled", text);
    }
    if let Some(limit) = &group.limited_by {
        note("warn", "limited", Text(limit).to_string());
    }
    for failure in &group.failures {
        note("bad", "failed", format!("{} × {}: {}", failure.count, Text(&failure.code), Text(&failure.message)));
    }
    for (label, reason) in [
        ("cannot grow", &group.cannot_grow),
        ("launches refused", &group.launches_refused),
        ("cannot shrink", &group.cannot_shrink),
        ("in doubt", &group.doubt),
        ("no template", &group.no_template),
    ] {
        if let Some(reason) = reason {
            note("bad", label, Text(reason).to_string());
        }
    }
    notes
}

fn write_decisions(html: &mut String, decisions: &[DecisionEntry]) -> fmt::Result {
    if decisions.is_empty() {
        return html.write_str("<p>None since the start.</p>");
    }
    html.write_str("<ol>")?;
    for decision in decisions {
        let class = if decision.result == "ok" { "good" } else { "bad" };
        write!(
            html,
            "<li><time>{}</time> <b>{}</b> {} <span class=\"{class}\">{}</span><p class=\"reason\">{}{}</p></li>",
            Text(&decision.at),
            Text(&decision.group),
            Text(&decision.action),
            Text(&decision.result),
            Text(&decision.reason),
            decision.request_id.as_ref().map(|id| format!(" <small>{}</small>", Text(id))).unwrap_or_default(),
        )?;
    }
    html.write_str("</ol>")
}

#[cfg(test)]
mod tests {
    use super::super::document::FailureEntry;
    use super::*;

    #[test]
    fn foreign_text_cannot_become_markup() {
        let attack = "<script>alert(1)</script>\"'&\u{202e}\u{7}";
        let failure = FailureEntry { code: attack.to_owned(), message: attack.to_owned(), count: 1 };
        let text = || Some(attack.to_owned());
        let group = GroupEntry {
            id: attack.to_owned(),
            source: attack.to_owned(),
            cannot_grow: text(),
            launches_refused: text(),
            doubt: text(),
            failures: vec![failure],
            ..GroupEntry::default()
        };
        let source = SourceStatus { name: attack.to_owned(), problem: text(), ..SourceStatus::default() };
        let decision = DecisionEntry {
            group: attack.to_owned(),
            action: attack.to_owned(),
            reason: attack.to_owned(),
            request_id: text(),
            ..DecisionEntry::default()
        };
        let (sources, groups, decisions) = (vec![source], vec![group], vec![decision]);
        let html = page(&Document { sources, groups, decisions, ..Document::default() });
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains('\u{202e}') && !html.contains('\u{7}'));
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\u202e\\u0007"), "{html}");
    }

    #[test]
    fn ages_are_shown_in_two_units() {
        assert_eq!([7, 61, 3660, 90_000].map(age), ["7 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
