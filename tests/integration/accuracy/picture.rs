//! The distribution of the errors as a picture.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "figures of a few thousand")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const ROW: f64 = 74.0;
const TOP: f64 = 46.0;
/// The errors that are shown, in percent.
const FROM: f64 = -6.0;
const TO: f64 = 2.0;
/// Width of a bar, in percent.
const BIN: f64 = 0.125;

/// One row: its name and its errors in percent.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) errors: Vec<f64>,
}

/// Draws one histogram per row.
pub(crate) fn draw(title: &str, rows: &[Row]) -> String {
    let height = TOP + ROW * rows.len() as f64 + 40.0;
    let x = |percent: f64| LEFT + (percent - FROM) / (TO - FROM) * (WIDTH - LEFT - 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n<text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>\n"
    );
    let bottom = TOP + ROW * rows.len() as f64;
    for percent in (FROM as i32)..=(TO as i32) {
        let at = x(f64::from(percent));
        let color = if percent == 0 { "#333" } else { "#ddd" };
        let _ = writeln!(svg, "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"{color}\"/>");
        let _ =
            writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{percent:+} %</text>", bottom + 16.0);
    }
    let _ =
        writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">too low</text>", x(0.0) - 6.0, bottom + 32.0);
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">too high</text>", x(0.0) + 6.0, bottom + 32.0);
    for (number, row) in rows.iter().enumerate() {
        let floor = TOP + ROW * (number as f64 + 1.0) - 6.0;
        let bins = ((TO - FROM) / BIN) as usize;
        let mut counts = vec![0_u32; bins];
        for error in &row.errors {
            let bin = ((error.clamp(FROM, TO - BIN) - FROM) / BIN) as usize;
            counts[bin.min(bins - 1)] += 1;
        }
        let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
        let _ = writeln!(svg, "<text x=\"10\" y=\"{:.1}\">{}</text>", floor - 24.0, row.name);
        let _ =
            writeln!(svg, "<text x=\"10\" y=\"{:.1}\" fill=\"#666\">{} nodes</text>", floor - 8.0, row.errors.len());
        for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let from = FROM + bin as f64 * BIN;
            let tall = f64::from(*count) / most * (ROW - 18.0);
            let color = if from >= 0.0 { "#c0392b" } else { "#2c6fbb" };
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{color}\"/>",
                x(from),
                floor - tall,
                x(from + BIN) - x(from) - 0.6
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Fails if a file of the repository is not `expected`; with HEADCOUNT_WRITE_DOCS set, writes it instead.
pub(crate) fn check_file(path: &str, expected: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if fs::read_to_string(&file).is_ok_and(|written| written == expected) {
        return;
    }
    let command = "HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy";
    assert!(std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some(), "{path} is out of date; {command} rewrites it");
    fs::write(file, expected).expect("the file can be written");
}
