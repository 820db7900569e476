//! `--demo` of the commands that read, and `headcount demo`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::texts;
use crate::peers::headcount::{command, run};

#[test]
fn every_command_that_reads_a_cloud_reads_the_simulated_one() {
    for (arguments, expected) in [
        (&["groups"][..], "no-capacity   demo "),
        (&["groups", "--similar"], "SEPARATED BY"),
        (&["template", "gpu"], "nvidia.com/gpu"),
        (&["check"], "can be read; 6 groups"),
        (&["compare"], "batch-spot    3       3      3 "),
        (&["prices", "web"], "m5.large"),
        (&["instance-types", "export"], "p4d.24xlarge: "),
    ] {
        let output = run(&[arguments, &["--demo"]].concat());
        let (stdout, stderr) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(stdout.contains(expected), "{arguments:?}: {stdout}");
    }
}

#[test]
fn the_demo_has_no_other_configuration_and_no_server_to_compare_with() {
    for arguments in [&["groups", "--config=x"][..], &["check", "--nodes=1:2:a"], &["compare", "--server=http://a"]] {
        let output = run(&[arguments, &["--demo"]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(texts(&output).1.contains("cannot be used with"), "{arguments:?}");
    }
}

#[test]
fn the_demo_plays_its_script_where_stdout_is_no_terminal_and_ends_if_nobody_reads() {
    let mut demo = command(&["demo"]);
    let mut demo = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let lines = BufReader::new(demo.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let read: Vec<String> = lines.take_while(|line| !line.contains("2 failed with Insufficient")).collect();
    assert!(read.first().is_some_and(|heading| heading.starts_with("headcount demo: ")), "{read:?}");
    assert!(read.iter().any(|line| line.contains("gRPC on 127.0.0.1:")), "{read:?}");
    // The iterator had the reading end.
    let ended = demo.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), texts(&ended)), (Some(0), (String::new(), String::new())));
}
