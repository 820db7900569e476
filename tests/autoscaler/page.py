#!/usr/bin/env python3
"""Writes the results of tests/autoscaler/run into a page, between two comments: a row per scenario and a column per release and
cloud, or a row per release and cloud with its latency; or what tests/autoscaler/beside measured. What was not run keeps its last
result."""

import sys
from pathlib import Path

CLOUDS = {"aws": "AWS", "azure": "Azure"}


def outcomes(results):
    """Yields (release, cloud, scenario, outcome) for each line of the results."""
    for line in Path(results).read_text().splitlines():
        release, test, outcome = line.split(" ", 2)
        cloud, scenario = test.split("_", 1)
        yield release, cloud, scenario.replace("_", " "), outcome


def earlier(table):
    """Yields what a table of outcomes has, in the form of `outcomes`."""
    names = {name: cloud for cloud, name in CLOUDS.items()}
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    for scenario, *cells in lines[2:]:
        for column, outcome in zip(lines[0][1:], cells):
            release, cloud = column.split(" ")
            if outcome != "–":
                yield release, names[cloud], scenario, outcome


def scenarios(results, table):
    rows = [*earlier(table), *outcomes(results)]
    columns = sorted({(release, cloud) for release, cloud, _, _ in rows})
    cells_of = {(scenario, release, cloud): outcome for release, cloud, scenario, outcome in rows}
    lines = ["| scenario | " + " | ".join(f"{release} {CLOUDS[cloud]}" for release, cloud in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for scenario in sorted({scenario for _, _, scenario, _ in rows}):
        cells = [cells_of.get((scenario, *column), "–") for column in columns]
        lines.append(f"| {scenario} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def latency(results, table):
    lines = {}
    for line in table.strip().splitlines()[2:]:
        release, cloud = [cell.strip() for cell in line.split("|")[1:3]]
        lines[release, cloud] = line
    for line in Path(results).read_text().splitlines():
        release, cloud, _, median, _, _, rest = line.split(" ", 6)
        lines[release, CLOUDS[cloud]] = f"| {release} | {CLOUDS[cloud]} | {median} s | {rest} |"
    head = ["| release | cloud | median | five pods |", "| --- | --- | --- | --- |"]
    return "\n".join(head + [lines[key] for key in sorted(lines)])


FIGURES = {
    "failed-launch-listed": "a launch that failed is listed as failed, s",
    "backed-off": "CA backs off after a launch that failed, s",
    "other-group-grown": "from a launch without capacity to the growth of another group, s",
    "other-group-grown-synchronous": "the same with `launch: synchronous`",
    "outside-change-seen": "change from outside seen, s",
    "calls-per-idle-minute": "cloud calls per idle minute",
    "calls-per-idle-minute-numbered": "the same with numbered launch template versions",
    "calls-per-busy-minute": "cloud calls in a minute with a pod every 10 s",
    "calls-per-burst-minute": "cloud calls in a minute with six pods at once",
    "mean-loop-ms": "CA's loop in the mean, ms",
    "memory-at-1000": "memory at 1,000 instances, MiB",
    "memory-at-10000": "memory at 10,000 instances, MiB",
}


def earlier_figures(table, columns):
    """Yields what a table of `beside` has."""
    names = {title: what for what, title in FIGURES.items()}
    for line in table.strip().splitlines()[2:]:
        title, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for column, cell in zip(columns, cells):
            if cell != "–":
                yield (names[title], *column), cell


def beside(results, table):
    columns = [(cloud, server) for cloud in CLOUDS for server in ("headcount", "upstream")]
    measured = dict(earlier_figures(table, columns))
    for line in Path(results).read_text().splitlines():
        _, cloud, server, what, figure = line.split(" ")
        measured[what, cloud, server] = figure
    lines = ["| | " + " | ".join(f"{server.capitalize()}, {CLOUDS[cloud]}" for cloud, server in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for what, title in FIGURES.items():
        if not any(key[0] == what for key in measured):
            continue
        lines.append(f"| {title} | " + " | ".join(measured.get((what, *column), "–") for column in columns) + " |")
    return "\n".join(lines)


def main(kind, results, page):
    begin, end = f"<!-- {kind} -->", f"<!-- end of {kind} -->"
    text = Path(page).read_text()
    before, rest = text.split(begin)
    table, after = rest.split(end)
    made = {"scenarios": scenarios, "devices": scenarios, "latency": latency, "beside": beside}[kind](results, table)
    Path(page).write_text(f"{before}{begin}\n{made}\n{end}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
