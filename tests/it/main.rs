//! All integration tests, in one binary.

mod arrows;
mod audit_cli;
mod audit_deep;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod child;
mod claude_cases;
mod claude_cli;
mod claude_kept;
mod claude_kept_random;
mod claude_oracle;
mod claude_random;
mod claude_rules;
mod claude_seeds;
mod claude_sidecars;
mod codes;
#[cfg(unix)]
mod command;
#[cfg(unix)]
mod contention;
#[cfg(unix)]
mod crash;
#[cfg(unix)]
mod crash_replace;
#[cfg(unix)]
mod crash_rows;
#[cfg(unix)]
mod crash_runs;
#[cfg(unix)]
#[allow(dead_code, reason = "each helper is used by some tests")]
mod crash_world;
#[cfg(unix)]
mod demo;
mod diff_export;
#[cfg(unix)]
mod foreign_files;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod fork_kills;
mod graph;
mod inspect_cli;
#[cfg(unix)]
mod install;
mod lease;
mod ledger;
mod ledger_crash;
mod ledger_verify;
mod operations;
mod oracle;
#[cfg(unix)]
mod pick;
mod policy_cli;
mod policy_docs;
mod policy_evaluate;
mod policy_explain;
mod policy_files;
mod policy_parse;
mod policy_shipped;
#[cfg(unix)]
mod probe;
mod prompt;
#[cfg(unix)]
#[allow(dead_code, reason = "each helper is used by some tests")]
mod pty;
mod qwen_cases;
mod qwen_lease;
mod qwen_reader;
mod random;
#[cfg(unix)]
mod readme;
mod reasonix_child;
mod reasonix_cli;
mod reasonix_family;
mod reasonix_log;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod reasonix_made;
mod reasonix_older;
mod reasonix_redact;
mod redact;
mod resume;
mod seeds;
mod seen;
mod sessions;
mod signals;
#[cfg(unix)]
mod slash;
mod snapshot;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod stage;
mod state;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod support;
#[cfg(unix)]
mod tree;
mod tree_agents;
mod tree_cli;
mod tree_reasonix;
mod tree_screen;
mod truncate;
mod truncate_random;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod turns;
mod vectors;
mod watch;
mod work;
mod write;
