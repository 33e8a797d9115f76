//! A report as HTML that mail clients show.
//!
//! Styles are inline, because many clients drop `<style>`; the one there is gives the colours of dark mode to those
//! that keep it. Tables lay everything out. Nothing is loaded from anywhere. The chart is made of table cells with a
//! background: inline SVG and `data:` pictures are dropped by the widespread clients, and a picture attached by its
//! content id stays hidden until somebody clicks, knows no dark mode, and is read to no blind person.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::view::{Bar, Body, Cell, Section, Tone, View};

/// The colours of dark mode, by class; `!important` beats the inline ones.
const DARK: &str = "@media (prefers-color-scheme: dark) {\
    .page { background: #16181c !important; }\
    .card { background: #202329 !important; border-color: #363b44 !important; }\
    .ink { color: #e6e8eb !important; }\
    .soft { color: #a2a9b4 !important; }\
    .rule { border-color: #363b44 !important; }\
    .old { background: #56606f !important; }\
    .new { background: #7aa7f0 !important; }\
    .good { background: #1d6b40 !important; }\
    .mended { background: #87590d !important; }\
    .bad { background: #a12a2a !important; }\
    }";

const PAGE: &str = "margin:0;padding:0;background:#eef0f3;-webkit-text-size-adjust:100%;";
const FONT: &str = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;";
const CARD: &str = "width:100%;max-width:680px;background:#ffffff;border:1px solid #d9dde3;border-radius:8px;\
    table-layout:fixed;border-collapse:separate;border-spacing:0;";
const NOTICE: &str = "padding:12px 16px;font-size:14px;line-height:20px;font-weight:bold;color:#1c2430;";
const BANNER: &str = "padding:16px;color:#ffffff;border-radius:7px 7px 0 0;";
const HEADLINE: &str = "font-size:22px;line-height:28px;font-weight:bold;color:#ffffff;";
const SENTENCE: &str = "padding-top:4px;font-size:15px;line-height:21px;color:#ffffff;overflow-wrap:anywhere;";
const SECTION: &str = "padding:18px 16px 0 16px;";
const TITLE: &str = "margin:0 0 6px 0;font-size:15px;line-height:20px;font-weight:bold;color:#1c2430;";
const TABLE: &str = "width:100%;border-collapse:collapse;border-spacing:0;";
const LABEL: &str = "padding:5px 12px 5px 0;width:38%;font-size:13px;line-height:18px;text-align:left;font-weight:normal;\
    vertical-align:top;color:#5b6573;border-bottom:1px solid #e6e9ed;";
const FACT: &str = "padding:5px 0;font-size:13px;line-height:18px;color:#1c2430;overflow-wrap:anywhere;\
    vertical-align:top;border-bottom:1px solid #e6e9ed;";
const HEAD: &str = "padding:4px 0 4px 6px;font-size:12px;line-height:16px;font-weight:normal;text-align:right;\
    color:#5b6573;border-bottom:2px solid #d9dde3;";
const HEAD_FIRST: &str = "padding:4px 0;font-size:12px;line-height:16px;font-weight:normal;text-align:left;color:#5b6573;\
    border-bottom:2px solid #d9dde3;";
const FIRST: &str = "padding:5px 0;font-size:13px;line-height:18px;text-align:left;color:#1c2430;\
    overflow-wrap:break-word;vertical-align:top;border-bottom:1px solid #e6e9ed;";
const FIGURE: &str = "padding:5px 0 5px 6px;font-size:13px;line-height:18px;text-align:right;color:#1c2430;\
    font-variant-numeric:tabular-nums;vertical-align:top;border-bottom:1px solid #e6e9ed;";
const BELOW: &str = "font-size:12px;line-height:16px;color:#5b6573;";
const NOTE: &str = "margin:6px 0 0 0;font-size:12px;line-height:17px;color:#5b6573;";
const BAR_LABEL: &str = "padding:3px 10px 3px 0;font-size:12px;line-height:16px;white-space:nowrap;color:#5b6573;";
const BAR_FIGURE: &str = "padding:3px 0 3px 10px;font-size:12px;line-height:16px;white-space:nowrap;text-align:right;\
    color:#1c2430;font-variant-numeric:tabular-nums;";
const FOOT: &str = "padding:18px 16px 16px 16px;font-size:12px;line-height:17px;color:#5b6573;";

/// A whole document.
#[must_use]
pub fn html(view: &View) -> String {
    let (class, colour) = match view.tone {
        Tone::Good => ("good", "#1f7a4a"),
        Tone::Mended => ("mended", "#95610a"),
        Tone::Bad => ("bad", "#b3261e"),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="supported-color-schemes" content="light dark";
                title { (view.subject) }
                style { (PreEscaped(DARK)) }
            }
            body class="page" style=(PAGE) {
                table role="presentation" class="page" style=(format!("{TABLE}table-layout:fixed;background:#eef0f3;{FONT}")) { tr {
                    td align="center" style="padding:12px 8px;" {
                        table role="presentation" class="card" style=(CARD) {
                            tr { td class=(class) bgcolor=(colour) style=(format!("{BANNER}background:{colour};")) {
                                div style=(HEADLINE) { (view.headline) }
                                div style=(SENTENCE) { (view.sentence) }
                            } }
                            @if let Some(notice) = view.notice {
                                tr { td class="ink" style=(NOTICE) { (notice) } }
                            }
                            @for section in &view.sections {
                                tr { td style=(SECTION) { (of(section)) } }
                            }
                            tr { td class="soft" style=(FOOT) { "tallyd keeps this report in reconcile_run." } }
                        }
                    }
                } }
            }
        }
    };
    page.into_string()
}

fn of(section: &Section) -> Markup {
    html! {
        h2 class="ink" style=(TITLE) { (section.title) }
        @match &section.body {
            Body::Facts(rows) => (facts(rows)),
            Body::Table(columns, rows) => (table(columns, rows)),
            Body::Bars(rows) => (bars(rows)),
        }
        @if let Some(note) = &section.note {
            p class="soft" style=(NOTE) { (note) }
        }
    }
}

fn facts(rows: &[(String, String)]) -> Markup {
    html! {
        table style=(TABLE) {
            @for (label, fact) in rows {
                tr {
                    th scope="row" class="soft rule" style=(LABEL) { (label) }
                    td class="ink rule" style=(FACT) { (fact) }
                }
            }
        }
    }
}

fn table(columns: &[&str], rows: &[Vec<Cell>]) -> Markup {
    html! {
        div style="overflow-x:auto;" { table style=(TABLE) {
            tr {
                @for (at, column) in columns.iter().enumerate() {
                    th scope="col" class="soft rule" style=(if at == 0 { HEAD_FIRST } else { HEAD }) { (column) }
                }
            }
            @for row in rows {
                tr {
                    @for (at, cell) in row.iter().enumerate() {
                        td class="ink rule" style=(if at == 0 { FIRST } else { FIGURE }) {
                            (cell.text)
                            @if let Some(below) = &cell.below {
                                div class="soft" style=(BELOW) { (below) }
                            }
                        }
                    }
                }
            }
        } }
    }
}

fn bars(bars: &[Bar]) -> Markup {
    html! {
        table style=(TABLE) {
            @for bar in bars {
                tr {
                    td width="76" class="soft" style=(BAR_LABEL) { (bar.label) }
                    td { (mark(bar)) }
                    td width="64" class="ink" style=(BAR_FIGURE) { (bar.figure) }
                }
            }
        }
    }
}

/// A cell as wide as its share, and one for the rest.
fn mark(bar: &Bar) -> Markup {
    let (class, colour) = if bar.newest { ("new", "#2f6fde") } else { ("old", "#a9b4c4") };
    let cell = "height:12px;font-size:1px;line-height:12px;padding:0;border-radius:2px;";
    html! {
        table role="presentation" style=(TABLE) { tr {
            @if bar.percent > 0 {
                td class=(class) bgcolor=(colour) width=(format!("{}%", bar.percent))
                    style=(format!("{cell}background:{colour};")) { (PreEscaped("&nbsp;")) }
            }
            @if bar.percent < 100 {
                td width=(format!("{}%", 100 - bar.percent)) style=(cell) { (PreEscaped("&nbsp;")) }
            }
        } }
    }
}
