import gzip
import io
import tarfile
import zipfile
import zlib

with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("x/y.txt", "hello " * 100)
with zipfile.ZipFile("a.zip") as archive:
    print(archive.namelist(), len(archive.read("x/y.txt")), archive.testzip())
with tarfile.open("a.tar.gz", "w:gz") as archive:
    info = tarfile.TarInfo("t.txt")
    info.size = 3
    archive.addfile(info, io.BytesIO(b"abc"))
with tarfile.open("a.tar.gz") as archive:
    print(archive.getnames(), archive.extractfile("t.txt").read())
print(gzip.decompress(gzip.compress(b"x" * 10)), zlib.crc32(b"abc"))
