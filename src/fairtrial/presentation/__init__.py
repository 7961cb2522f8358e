"""Data for figures, reports, tables and terminals: words, rows, marks and charts.

Nothing here draws: `plots` does so with matplotlib, `report` in HTML, and `cli` on a terminal.
"""
