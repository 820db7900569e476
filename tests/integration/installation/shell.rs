//! What a package installs in addition to the binary.

use crate::peers::headcount::run;

#[test]
fn completions_and_the_manual_page_name_every_command() {
    let commands = ["serve", "check", "groups", "template", "migrate", "instance-types"];
    for arguments in [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"]] {
        let output = run(arguments);
        let text = String::from_utf8(output.stdout).expect("UTF-8").replace("\\-", "-");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
        for command in commands {
            assert!(text.contains(command), "{arguments:?}: {command} is missing");
        }
    }
    assert_eq!(run(&["completions", "tcl"]).status.code(), Some(2));
}
