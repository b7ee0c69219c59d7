import io

import openpyxl
import openpyxl.styles
import pypdf
import pypdf.generic

book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Sums"
for row in range(1, 6):
    sheet.append([f"row {row}", row, row / 4])
sheet["D1"] = "=SUM(B1:B5)"
sheet["A1"].font = openpyxl.styles.Font(bold=True)
sheet.merge_cells("A7:B8")
book.create_sheet("Other")["B2"] = "é"
book.save("book.xlsx")
again = openpyxl.load_workbook("book.xlsx")
print(again.sheetnames, again["Sums"]["D1"].value, again["Sums"]["A1"].font.bold, again["Sums"].merged_cells.ranges)
print([[cell.value for cell in row] for row in again["Sums"].iter_rows(min_row=1, max_row=2)], again["Other"]["B2"].value)
print(sum(row[1] for row in openpyxl.load_workbook("book.xlsx", read_only=True)["Sums"].iter_rows(max_row=5, values_only=True)))

# A PDF by hand: pypdf reads it, changes it and writes it.
parts = [
    b"<</Type/Catalog/Pages 2 0 R>>",
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
    b"<</Length 45>>stream\nBT /F 12 Tf 20 50 Td (Hello from a PDF) Tj ET\nendstream",
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
]
pdf, offsets = b"%PDF-1.4\n", []
for number, part in enumerate(parts, 1):
    offsets.append(len(pdf))
    pdf += b"%d 0 obj%s endobj\n" % (number, part)
start = len(pdf)
pdf += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets)
pdf += b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % start
reader = pypdf.PdfReader(io.BytesIO(pdf))
print(len(reader.pages), reader.pages[0].extract_text(), reader.pages[0].mediabox)
writer = pypdf.PdfWriter()
writer.append(reader)
writer.append(reader)
writer.pages[1].rotate(90)
writer.add_metadata({"/Title": "Twice"})
writer.encrypt("secret", algorithm="RC4-128")
writer.write("twice.pdf")
twice = pypdf.PdfReader("twice.pdf")
print(twice.is_encrypted, twice.decrypt("secret").name, len(twice.pages), twice.metadata.title, twice.pages[1].rotation)
