#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md lists exactly the fields of include/rondo/metrics.hpp, with a category and a unit.

    metrics_fields_test.py ROOT
"""

import pathlib
import re
import sys

CATEGORIES = {"counter", "gauge", "histogram", ""}
GROUPS = {"histograms", "detailed"}  # fields that are structs: explained by tables of their own


def fields(header):
    """The fields of each struct."""
    structs = re.findall(r"^struct (\w+) \{\n(.*?)^\};", header, re.MULTILINE | re.DOTALL)
    return {
        name: re.findall(r"^ {4}[\w:]+ (\w+)(?:\{\}| = 0);", body, re.MULTILINE)
        for name, body in structs
    }


def tables(document):
    """For each table of fields the cells of its rows."""
    found = re.findall(r"^\| field \|.*\n\|[-|]*\n((?:\|.*\n)+)", document, re.MULTILINE)
    return [[[c.strip() for c in row.split("|")[1:-1]] for row in rows.splitlines()]
            for rows in found]  # fmt: skip


def main(root):
    structs = fields((root / "include/rondo/metrics.hpp").read_text())
    metrics, detailed, histogram, info = tables((root / "docs/metrics.md").read_text())
    expected = {
        "Metrics": (metrics, structs["Metrics"]),
        "DetailedMetrics": (detailed, structs["DetailedMetrics"] + structs["Histograms"]),
        "HistSnapshot": (histogram, structs["HistSnapshot"]),
        "SampleInfo": (info, structs["SampleInfo"]),
    }
    wrong = []
    for name, (rows, names) in expected.items():
        listed = [row[0].strip("`") for row in rows]
        if listed != names or len(names) < 7:
            wrong.append(f"{name} has {names}\n  docs/metrics.md lists {listed}")
        for row in rows:
            unit = row[-2]
            category = row[1] if len(row) == 4 else "gauge"
            if category not in CATEGORIES or (not unit and row[0].strip("`") not in GROUPS):
                wrong.append(f"{name}: {row[0]} has no category or no unit: {row}")
    print("\n".join(wrong) or f"{sum(len(names) for _, names in expected.values())} fields")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
