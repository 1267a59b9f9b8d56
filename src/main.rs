//! The command line program: arguments to `cli::run` to exit status.

fn main() {}
