"""Helpers that read rows and values from a paper's sections."""


def rows_of(section, table=0):
    return section.tables[table].rows


def disagreeing(section):
    return [row for table in section.tables for row in table.rows if row.get("agrees") is False]


def find(rows, **values):
    (row,) = [row for row in rows if all(row[key] == value for key, value in values.items())]
    return row
