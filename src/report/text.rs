//! A report as plain text, for a terminal and for the mail's first part.

use std::fmt::Write;

use super::view::{Bar, Body, Cell, Section, View};

const WIDTH: usize = 72;
const BAR: usize = 30;

/// Lines of at most 72 columns, as far as what they say allows.
#[must_use]
pub fn text(view: &View) -> String {
    let mut out = Vec::new();
    out.extend(view.notice.map(|notice| format!("*** {notice} ***\n")));
    out.push(format!("{}\n{}", view.headline.to_uppercase(), wrapped(&view.sentence)));
    out.extend(view.sections.iter().map(section));
    out.join("\n") + "\n"
}

fn section(section: &Section) -> String {
    let mut out = format!("\n{}\n{}\n", section.title, "-".repeat(width(section.title)));
    out += &match &section.body {
        Body::Facts(rows) => facts(rows),
        Body::Table(columns, rows) => table(columns, rows),
        Body::Bars(rows) => bars(rows),
    };
    if let Some(note) = &section.note {
        out += "\n";
        out += &wrapped(note);
    }
    out.trim_end().to_owned()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn facts(rows: &[(String, String)]) -> String {
    let widest = rows.iter().map(|(label, _)| width(label)).max().unwrap_or_default();
    rows.iter().fold(String::new(), |out, (label, fact)| out + &format!("{label:widest$}  {fact}\n"))
}

fn table(columns: &[&str], rows: &[Vec<Cell>]) -> String {
    let widest: Vec<usize> = (0..columns.len())
        .map(|at| rows.iter().map(|row| width(&row[at].text)).chain([width(columns[at])]).max().unwrap_or_default())
        .collect();
    let laid_out = |cells: Vec<&str>| {
        let mut out = String::new();
        for (at, (cell, widest)) in cells.iter().zip(&widest).enumerate() {
            let pad = " ".repeat(widest - width(cell));
            out.extend(if at == 0 { [cell, pad.as_str(), ""] } else { ["  ", pad.as_str(), cell] });
        }
        out.trim_end().to_owned() + "\n"
    };
    let mut out = laid_out(columns.to_vec());
    for row in rows {
        out += &laid_out(row.iter().map(|cell| cell.text.as_str()).collect());
        for below in row.iter().filter_map(|cell| cell.below.as_ref()) {
            out = out + "    " + below + "\n";
        }
    }
    out
}

fn bars(bars: &[Bar]) -> String {
    let mut out = String::new();
    let widest = bars.iter().map(|bar| width(&bar.label)).max().unwrap_or_default();
    for Bar { label, percent, figure, newest: _ } in bars {
        let marks = "#".repeat((usize::from(*percent) * BAR).div_ceil(100));
        let gap = if marks.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _always = writeln!(out, "{label:widest$}  {marks}{gap}{figure}");
    }
    out
}

fn wrapped(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        if column > 0 && column + 1 + width(word) > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width(word);
    }
    out
}
