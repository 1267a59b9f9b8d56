//! `completions SHELL`: the script for stdout.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;

/// The completion script of `shell`. Built in memory, because the generator panics where its output is closed.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut command = Cli::command();
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, "offshoot", &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let text = String::from_utf8(script(shell)).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
            assert!(text.contains("operation-id"), "{shell}");
        }
    }
}
