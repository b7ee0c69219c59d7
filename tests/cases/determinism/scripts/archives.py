import zipfile, tarfile, gzip, io, hashlib, shutil
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.write("table.csv"); z.writestr("made.txt", "made")
with tarfile.open("a.tar.gz", "w:gz") as t:
    t.add("many"); t.add("doc.json")
shutil.make_archive("b", "zip", "tree")
for name in ["a.zip", "a.tar.gz", "b.zip"]:
    print(name, hashlib.sha256(open(name, "rb").read()).hexdigest())
print(gzip.compress(b"x").hex(), [i.date_time for i in zipfile.ZipFile("a.zip").infolist()])
