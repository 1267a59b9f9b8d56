//! Who gets a signal: the clean-ups, or the command that runs.
#![cfg(unix)]

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use offshoot::store::signals;
use rustix::process::Signal;

use crate::child::{Child, listen, tell};

/// The role `forward`: hands signals to the process it is told of, then takes them back.
pub fn forward(args: &[&str]) {
    signals::install().unwrap();
    let cleanup = signals::on_exit(|| tell("cleaned up"));
    let taken_back = signals::on_exit(|| tell("this was taken back"));
    drop(taken_back);
    let forwarding = signals::forward_to(args[0].parse().unwrap());
    tell("forwarding");
    listen();
    drop(forwarding);
    tell("mine again");
    listen();
    drop(cleanup);
}

#[test]
fn while_a_command_runs_it_gets_what_is_its_own_and_then_we_do() {
    let cases = [
        (Some(Signal::INT), Signal::TERM, 15),
        (Some(Signal::QUIT), Signal::TERM, 15),
        (None, Signal::HUP, 1),
    ];
    for (its_own, signal, number) in cases {
        let mut command = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let _stdin = command.stdin.take();
        let mut child = Child::spawn("forward", &[&command.id().to_string()]);
        assert_eq!(child.hear(), "forwarding");
        // The terminal sends this one to the command by itself; to pass it on would double it. It wakes the signal
        // thread first, so it has been dealt with when the next one arrives.
        if let Some(its_own) = its_own {
            child.signal(its_own);
        }
        child.signal(signal);
        assert_eq!(command.wait().unwrap().signal(), Some(number));
        child.say("take them back");
        assert_eq!(child.hear(), "mine again");
        child.signal(signal);
        assert_eq!(child.hear(), "cleaned up");
        assert_eq!(child.wait().code(), Some(128 + number));
    }
}

#[test]
fn an_interrupt_runs_what_is_registered_and_exits_with_130() {
    let mut child = Child::spawn("forward", &["1073741824"]);
    assert_eq!(child.hear(), "forwarding");
    child.say("take them back");
    assert_eq!(child.hear(), "mine again");
    child.signal(Signal::INT);
    assert_eq!(child.hear(), "cleaned up");
    assert_eq!(child.wait().code(), Some(130));
}
