# The commands of this repository. `just` lists them; each is one line that also works without just.

_default:
    @just --list

# Run all tests. Needs Python's moto for the contract tests: python3 -m pip install 'moto[server]'
test *ARGS:
    cargo test --locked {{ ARGS }}

# Run all tests that need no cloud SDK: minutes at first, about a minute once it is built
quick *ARGS:
    cargo test --locked --no-default-features {{ ARGS }}

# Run the simulation over a range of seeds, for example `just seeds 0..200000`, or one seed with `just seeds 42..43`
seeds RANGE="0..20000":
    HEADCOUNT_SEEDS={{ RANGE }} cargo test --locked --profile simulation --no-default-features --test integration simulation

# Run the simulation of one process over a million seeds, or another range: more than an hour, in a profile of its own
million RANGE="0..1000000":
    HEADCOUNT_SEEDS={{ RANGE }} cargo test --locked --profile seeds --no-default-features --test integration -- --exact simulation::the_laws_hold_under_every_schedule

# Run under load and under attack for an hour, or for another time: `just soak 10m`
soak LENGTH="1h":
    HEADCOUNT_SOAK={{ LENGTH }} cargo test --locked --test integration soak -- --nocapture

# Write the generated pages of docs/: log lines, metrics, limits, and what is measured of templates and prices
docs:
    HEADCOUNT_WRITE_DOCS=1 cargo test --locked --test integration -- log_lines verify::page verify::reports architecture::limits operation::document accuracy errors_of_estimates

# Break one rule at a time and expect the tests to fail, for example `just mutations min if-match`
mutations *NAMES:
    tests/mutations/run {{ NAMES }}

# Check the list of mutations against the source, without building
mutations-check:
    tests/mutations/run --check

# Play a cluster's life over a simulated cloud; no cloud account needed
demo:
    cargo run --locked --no-default-features -- demo

# Everything that decides whether a change can land
ci:
    .ci/run

# Check dependencies: duplicates, banned crates, licences, sources, advisories. Needs: cargo install cargo-deny --locked
deny:
    cargo deny --locked check advisories bans licenses sources

# Build every combination of the manifests and of our chart, compare the two, and check the values for the official chart
manifests:
    tests/deploy/run

# Lint the workflows of GitHub, and try the scripts of a release with a stand-in for the binary
workflows:
    tests/release/run

# Make all files of a release in the directory `dist`
release:
    deploy/release/build dist

# Write the container image to the directory `image`, without a container engine
image:
    deploy/image/build image
