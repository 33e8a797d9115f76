//! `tallyd man`, which the package's build calls.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, Exit};

/// What the command line does not know about itself: exit codes, signals, files, environment.
const SECTIONS: &str = include_str!("man.roff");

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to write tallyd.1, tallyd-serve.1 and the others
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    write_pages(folder).with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
    Ok(Exit::Done)
}

/// Writes a page for `tallyd`, and one for each of its commands.
fn write_pages(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // The command `help` has a page already: that of the command it is asked for.
    let mut tallyd = Cli::command().disable_help_subcommand(true);
    tallyd.build();
    for command in tallyd.get_subcommands().filter(|command| !command.is_hide_set()) {
        let (page, mut text) = begin(command.clone())?;
        text.extend_from_slice(b".SH SEE ALSO\n.BR tallyd (1),\nalso for exit status, files and environment\n");
        fs::write(folder.join(page.get_filename()), text)?;
    }
    let (page, mut text) = begin(tallyd)?;
    text.extend_from_slice(SECTIONS.as_bytes());
    fs::write(folder.join(page.get_filename()), text)
}

/// A page with what the command line knows.
fn begin(command: clap::Command) -> io::Result<(Man, Vec<u8>)> {
    let commands = command.has_subcommands();
    let name = command.get_display_name().unwrap_or("tallyd").to_owned();
    let page = Man::new(command);
    // Without a date, so that a page does not depend on when it was built. (The library leaves an empty one out, and the
    // version would take its place.)
    let mut text = format!(".TH {name} 1 \"\" \"tallyd {}\" tallyd\n", env!("CARGO_PKG_VERSION")).into_bytes();
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if commands {
        page.render_subcommands_section(&mut text)?;
    }
    Ok((page, text))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn pages() -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        write_pages(folder.path()).unwrap();
        let mut pages: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        pages.sort();
        (folder, pages)
    }

    #[test]
    fn every_command_has_a_page() {
        let (folder, pages) = pages();
        let shown: Vec<_> = Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| folder.path().join(format!("tallyd-{}.1", command.get_name())))
            .collect();
        assert!(shown.len() >= 9 && shown.iter().all(|page| pages.contains(page)), "{pages:?}");
        assert_eq!(pages.len(), shown.len() + 1);
        let tallyd = fs::read_to_string(folder.path().join("tallyd.1")).unwrap();
        for section in ["NAME", "OPTIONS", "EXIT STATUS", "SIGNALS", "FILES", "ENVIRONMENT"] {
            assert!(tallyd.contains(&format!("\n.SH {section}\n")), "{section}:\n{tallyd}");
        }
        assert!(!tallyd.contains("tallyd-man"), "{tallyd}");
    }

    /// By what is installed of the two programs that people read manual pages with. (mandoc's own warnings are of style.)
    #[test]
    fn pages_are_rendered_without_a_complaint() {
        let renderers: [&[&str]; 2] =
            [&["groff", "-man", "-Tutf8", "-ww", "-rCHECKSTYLE=3"], &["mandoc", "-Tlint", "-Werror"]];
        let (_folder, pages) = pages();
        for renderer in renderers {
            for page in &pages {
                let run = Command::new(renderer[0]).args(&renderer[1..]).arg(page).stdin(Stdio::null()).output();
                let Ok(output) = run else { break };
                let said = if renderer[0] == "mandoc" { output.stdout } else { output.stderr };
                let said = String::from_utf8(said).unwrap();
                assert!(said.is_empty(), "{} {}: {said}", renderer[0], page.display());
            }
        }
    }
}
