#!/usr/bin/env python3
"""Writes the results of tests/autoscaler/run into a page: a row per scenario, a column per release and cloud."""

import sys
from pathlib import Path

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
CLOUDS = {"aws": "AWS", "azure": "Azure"}


def read(results):
    """Yields (release, cloud, scenario, outcome) for each line of the results."""
    for line in Path(results).read_text().splitlines():
        release, test, outcome = line.split(" ", 2)
        cloud, scenario = test.split("_", 1)
        yield release, cloud, scenario.replace("_", " "), outcome


def table(rows):
    columns = sorted({(release, cloud) for release, cloud, _, _ in rows})
    outcomes = {(scenario, release, cloud): outcome for release, cloud, scenario, outcome in rows}
    lines = ["| scenario | " + " | ".join(f"{release} {CLOUDS[cloud]}" for release, cloud in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for scenario in sorted({scenario for _, _, scenario, _ in rows}):
        cells = [outcomes.get((scenario, *column), "–") for column in columns]
        lines.append(f"| {scenario} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(results, page):
    rows = list(read(results))
    text = Path(page).read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    Path(page).write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
