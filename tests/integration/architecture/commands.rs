//! The commands in the documents name subcommands, flags, tests, benchmarks, recipes, calls and programs that exist.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::documents::pages;
use super::rust_files;
use crate::peers::headcount::binary;

/// The first words of the commands that can be checked here.
const PROGRAMS: [&str; 7] = ["headcount", "cargo", "just", "grpcurl", "tests/", "deploy/", ".ci/"];

/// The commands of a document: its indented lines, those that `\` continues as one, and its code spans.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let indented = joined.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned);
    let spans = joined.split('`').skip(1).step_by(2).filter(|span| span.contains(' ')).map(str::to_owned);
    let words =
        |line: &str| line.split(" # ").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let is_command = |line: &String| {
        let mut words = line.split(' ').skip_while(|word| word.contains('=') && !word.starts_with('-'));
        words.next().is_some_and(|first| {
            PROGRAMS.iter().any(|program| first == *program || (program.ends_with('/') && first.starts_with(program)))
        })
    };
    indented.chain(spans).map(|line| words(&line)).filter(is_command).collect()
}

/// The words of a command without the variables before it.
fn words(command: &str) -> Vec<&str> {
    command.split(' ').skip_while(|word| word.contains('=') && !word.starts_with('-')).collect()
}

/// What a command names that does not exist.
fn missing(command: &str, root: &Path) -> Option<String> {
    let words = words(command);
    match words[0] {
        "headcount" => missing_in_headcount(&words[1..]),
        "cargo" => missing_target(&words, root),
        "just" => missing_recipe(words.get(1)?, root),
        "grpcurl" => missing_call(&words, root),
        program => (!is_program(&root.join(program))).then(|| format!("the program {program}")),
    }
}

/// A subcommand or a flag that `--help` does not know.
fn missing_in_headcount(words: &[&str]) -> Option<String> {
    let names = words.iter().take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'));
    let names: Vec<&&str> = names.take_while(|word| !word.starts_with('-')).collect();
    let output = Command::new(binary()).args(&names).arg("--help").env_clear().output();
    let output = output.expect("the binary runs");
    if !output.status.success() {
        return Some(format!("the command {names:?}"));
    }
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    // It reads the flags of the Cluster Autoscaler.
    if names.first().is_some_and(|name| **name == "migrate") {
        return None;
    }
    let flags = words.iter().filter(|word| word.starts_with('-')).filter_map(|word| word.split('=').next());
    let known = |flag: &str| help.split([' ', ',', '\n', '[', '=']).any(|word| word == flag);
    flags.filter(|flag| !known(flag)).map(|flag| format!("the flag {flag}")).next()
}

/// A benchmark, or a module of the tests.
fn missing_target(words: &[&str], root: &Path) -> Option<String> {
    let after = |flag: &'static str| words.iter().skip_while(move |word| **word != flag).skip(1);
    let bench = after("--bench").next().map(|name| root.join("benches").join(name).with_extension("rs"));
    let tests = after("--test").next().map(|name| root.join("tests").join(name));
    let filter = after("--test").nth(1).filter(|word| !word.starts_with('-'));
    let module = filter.and_then(|filter| filter.split("::").next()).filter(|name| !is_module(name, root));
    let file = [bench, tests].into_iter().flatten().find(|path| !path.exists()).map(|path| path.display().to_string());
    file.or_else(|| module.map(|name| format!("the tests {name}")))
}

/// Whether a module of the integration tests, at any depth, has this name.
fn is_module(name: &str, root: &Path) -> bool {
    let files = rust_files(&root.join("tests/integration"));
    files.iter().any(|file| file.with_extension("").components().any(|part| part.as_os_str() == name))
}

fn missing_recipe(name: &str, root: &Path) -> Option<String> {
    let recipes = fs::read_to_string(root.join("justfile")).expect("the justfile");
    let is_there = name.starts_with('-')
        || recipes
            .lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':') || rest.starts_with(' ')));
    (!is_there).then(|| format!("the recipe {name}"))
}

/// A call of the protocol, by its last segment, or a field of its request.
fn missing_call(words: &[&str], root: &Path) -> Option<String> {
    let proto = fs::read_to_string(root.join("proto/externalgrpc.proto")).expect("the protocol");
    let call = words.last()?.rsplit_once('/').map(|(_, call)| format!("rpc {call}("));
    let fields = words.iter().filter(|word| word.starts_with("'{")).flat_map(|json| json.split('"').skip(1).step_by(2));
    let fields =
        fields.filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase())).map(|name| format!(" {name} ="));
    let values = ["web", "gpu"].map(|group| format!(" {group} ="));
    call.into_iter().chain(fields).filter(|name| !values.contains(name)).find(|name| !proto.contains(name))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[test]
#[cfg_attr(
    not(all(feature = "aws", feature = "azure")),
    ignore = "the flags of the documents are those of both clouds"
)]
fn commands_in_documents_name_what_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages(root) {
        for command in commands(&fs::read_to_string(&page).expect("a page")) {
            checked += 1;
            wrong.extend(missing(&command, root).map(|what| format!("{}: `{command}`: {what}", page.display())));
        }
    }
    assert!(checked > 80, "only {checked} commands were found");
    assert!(wrong.is_empty(), "these do not exist: {wrong:#?}");
}

#[test]
fn what_a_command_names_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = "Run `just no-such`, then\n\n    X=1 cargo bench \\\n        --bench none # often\n    ls\n";
    let found = commands(text);
    assert_eq!(found, ["X=1 cargo bench --bench none", "just no-such"]);
    assert!(found.iter().all(|command| missing(command, root).is_some()), "{found:?}");
    for wrong in [
        "headcount no-such",
        "headcount check --no-such",
        "cargo test --test integration no_such",
        "tests/no-such",
        "grpcurl -plaintext 127.0.0.1:8086 $C/NoSuch",
        "grpcurl -d '{\"size\":3}' 127.0.0.1:8086 $C/NodeGroups",
    ] {
        assert!(missing(wrong, root).is_some(), "{wrong}");
    }
    for right in
        ["headcount check -o json", "just deny", "tests/deploy/run --write FOLDER", "cargo bench --bench reads"]
    {
        assert_eq!(missing(right, root), None, "{right}");
    }
}
