#!/usr/bin/env python3
"""Makes a workbook of a CSV file, with formulas and formats, and reads it back."""
import csv
import os
import sys
import tempfile
import zipfile
from datetime import date

from openpyxl import Workbook, load_workbook
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter

HEAD = PatternFill("solid", fgColor="3B6FB6")


def build(path, target):
    book = Workbook()
    sheet = book.active
    sheet.title = "Umsätze"
    with open(path, newline="") as f:
        for number, row in enumerate(csv.reader(f), 1):
            sheet.append([row[0], *(float(x) if number > 1 else x for x in row[1:]), f"=B{number}-C{number}" if number > 1 else "Gewinn"])
    for cell in sheet[1]:
        cell.font, cell.fill, cell.alignment = Font(bold=True, color="FFFFFF"), HEAD, Alignment(horizontal="center")
    last = sheet.max_row
    sheet.append(["Summe", *(f"=SUM({c}2:{c}{last})" for c in "BCD")])
    for row in sheet.iter_rows(min_row=2, min_col=2):
        for cell in row:
            cell.number_format = '#,##0.00 "€"'
    sheet.freeze_panes = "A2"
    sheet.column_dimensions["A"].width = 14
    notes = book.create_sheet("Notizen", 0)
    notes["B2"] = "Stand"
    notes["C2"] = date(2024, 3, 31)
    notes.merge_cells("B4:D4")
    book.save(target)


def main():
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "umsatz.xlsx")
        build(sys.argv[1], target)
        with zipfile.ZipFile(target) as archive:
            print([n for n in sorted(archive.namelist()) if "sheet" in n])
        book = load_workbook(target)
        print(book.sheetnames, [s.dimensions for s in book])
        sheet = book["Umsätze"]
        for row in sheet.iter_rows(values_only=True):
            print(row)
        print(sheet["B2"].number_format, sheet["A1"].font.b, sheet["A1"].fill.fgColor.rgb, sheet.freeze_panes, sheet.column_dimensions["A"].width)
        notes = book["Notizen"]
        print(notes["C2"].value, notes["C2"].is_date, notes.merged_cells.ranges, get_column_letter(28), sheet.cell(2, 1).coordinate)


if __name__ == "__main__":
    main()
