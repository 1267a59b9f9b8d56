//! The command line program: arguments to `cli::run` to exit status.

use std::process::ExitCode;

fn main() -> ExitCode {
    offshoot::cli::run(std::env::args_os())
}
