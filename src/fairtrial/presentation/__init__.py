"""What figures, the report, tables and a terminal show, as data: words, rows, marks and charts.

Nothing here draws: `plots` does it with matplotlib, `report` in HTML, and `cli` on a terminal.
"""
