//! `man`: one manual page for the program and all of its commands, in roff.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::args::Cli;

/// Exit statuses as scripts rely on them; the README's table says the same.
const EXITS: [(&str, &str); 7] = [
    ("0", "done"),
    ("1", "fault: the machine failed, or a file is damaged"),
    ("2", "usage, or a policy or record that is not valid"),
    ("3", "refused: retrying cannot help"),
    ("4", "busy or stale: retrying can help"),
    ("5", "a check found something"),
    ("130", "cancelled at the prompt or by Ctrl-C; nothing was written"),
];

const ENVIRONMENT: [(&str, &str); 4] = [
    ("OFFSHOOT_STATE_DIR", "where ledgers, labels and trust are kept, as --state-dir"),
    ("OFFSHOOT_POLICY", "the policy where the command line names no choice"),
    ("NO_COLOR", "no colours, unless --color says otherwise"),
    ("QWEN_HOME, QWEN_RUNTIME_DIR", "where Qwen Code keeps its sessions"),
];

/// The page.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn page() -> io::Result<Vec<u8>> {
    let mut root = Cli::command();
    root.build();
    let mut out = Vec::new();
    let man = Man::new(root.clone()).manual("User Commands");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    commands(&root, &mut out)?;
    table("EXIT STATUS", &EXITS, &mut out)?;
    table("ENVIRONMENT", &ENVIRONMENT, &mut out)?;
    man.render_version_section(&mut out)?;
    out.push(b'\n');
    Ok(out)
}

/// One section a command, commands of commands behind theirs. Options that all commands take stand once, above.
fn commands(parent: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    for command in parent.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        let name = command.get_bin_name().unwrap_or(command.get_name()).to_uppercase();
        Roff::new().control("SH", [name.as_str()]).to_writer(out)?;
        // A command of its own: otherwise the options of the whole program stand under each.
        let own = command.clone().mut_args(|a| {
            let hidden = a.is_global_set() || a.get_id() == "help";
            a.hide(hidden)
        });
        let man = Man::new(own);
        let mut part = Vec::new();
        man.render_description_section(&mut part)?;
        man.render_synopsis_section(&mut part)?;
        if command.get_arguments().any(|a| !a.is_global_set() && a.get_id() != "help") {
            man.render_options_section(&mut part)?;
        }
        for line in String::from_utf8_lossy(&part).lines() {
            // The headings of a page of its own are paragraphs here.
            let line = if line.starts_with(".SH") { ".PP" } else { line };
            out.extend(line.bytes().chain([b'\n']));
        }
        commands(command, out)?;
    }
    Ok(())
}

fn table(heading: &str, rows: &[(&str, &str)], out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (key, text) in rows {
        roff.control("TP", []).text([bold(*key)]).text([roman(*text)]);
    }
    roff.to_writer(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_every_command_and_option_once() {
        let text = String::from_utf8(page().unwrap()).unwrap();
        for command in ["RESUME", "INSPECT", "AUDIT VERIFY", "POLICY EXPLAIN", "DEMO", "MAN"] {
            assert_eq!(text.matches(&format!("\"OFFSHOOT {command}\"")).count(), 1, "{command}\n{text}");
        }
        for option in ["operation\\-id", "state\\-dir", "allow\\-gap", "anchor"] {
            assert!(text.contains(&format!("\\-\\-{option}")), "{option}");
        }
        assert_eq!(text.matches("Where ledgers, labels and trust are kept").count(), 1);
        assert!(text.contains("\"EXIT STATUS\""));
    }
}
