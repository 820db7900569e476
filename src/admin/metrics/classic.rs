//! The text formats of metrics, and which one a scraper gets.
//!
//! The registry writes OpenMetrics. The classic format (0.0.4) differs in that counters are declared with their
//! `_total`, and has neither units nor an end marker; under `text/plain` these would break scrapes.

/// The content type of OpenMetrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the classic format.
pub(super) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether an `Accept` header asks for OpenMetrics more than for text. Without the header, scrapers get the classic
/// format.
pub(super) fn wants_open_metrics(accept: &str) -> bool {
    let quality = |wanted: &[&str]| {
        let entries = accept.split(',').filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let media = parts.next()?.to_ascii_lowercase();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f64>().ok());
            wanted.contains(&media.as_str()).then_some(quality.unwrap_or(1.0))
        });
        entries.fold(0.0, f64::max)
    };
    let (open, text) = (quality(&["application/openmetrics-text"]), quality(&["text/plain", "text/*", "*/*"]));
    open > 0.0 && open >= text
}

/// The same metrics in the classic format.
pub(super) fn to_classic(open_metrics: &str) -> String {
    let mut classic = String::with_capacity(open_metrics.len());
    // HELP comes before TYPE, and its name depends on the type.
    let mut help = None;
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take() {
                push(&mut classic, &["# HELP ", name, suffix, " ", text]);
            }
            push(&mut classic, &["# TYPE ", name, suffix, " ", kind]);
            continue;
        }
        push(&mut classic, &[line]);
    }
    classic
}

fn push(text: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| text.push_str(part));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_open_metrics_and_everybody_else_the_classic_format() {
        // What Prometheus 2.42 and 3 send.
        assert!(wants_open_metrics(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ));
        assert!(wants_open_metrics("application/openmetrics-text"));
        for accept in ["", "*/*", "text/plain", "text/html,*/*;q=0.8", "application/openmetrics-text;q=0"] {
            assert!(!wants_open_metrics(accept), "{accept}");
        }
        assert!(!wants_open_metrics("text/plain;version=0.0.4,application/openmetrics-text;q=0.5"));
    }

    #[test]
    fn counters_are_declared_with_their_suffix_and_the_end_marker_is_dropped() {
        let open = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total{a=\"b\"} 1\n# HELP size Size.\n# TYPE size \
            gauge\nsize 2\n# EOF\n";
        let classic = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{a=\"b\"} 1\n# HELP size \
            Size.\n# TYPE size gauge\nsize 2\n";
        assert_eq!(to_classic(open), classic);
    }
}
