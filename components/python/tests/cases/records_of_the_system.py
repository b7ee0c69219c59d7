import grp
import os
import pickle
import pwd
import resource
import shutil
import tempfile

disk = os.statvfs(".")
for record in (disk, os.fstatvfs(0), pwd.getpwuid(0), grp.getgrgid(0), resource.getrusage(resource.RUSAGE_SELF), os.stat(".")):
    kind = type(record)
    print(kind, isinstance(record, tuple), len(record), kind.n_fields, kind.n_unnamed_fields, kind.__match_args__[:4])
    print([pickle.loads(pickle.dumps(record, protocol)) == record for protocol in range(pickle.HIGHEST_PROTOCOL + 1)])
print(os.statvfs_result(range(10)), disk.f_namemax, type(disk.f_fsid), os.statvfs in os.supports_fd)
print(pwd.getpwnam("root")[:4], grp.getgrnam("root"), pwd.struct_passwd("abcdefg"))
print(type(shutil.disk_usage("/")), "disk_usage" in shutil.__all__, shutil.disk_usage("/")._fields)

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "tool"), "w") as tool:
    pass
for mode in (0o644, 0o755):
    os.chmod(tool.name, mode)
    with os.scandir(folder) as entries:
        (entry,) = entries
    print(isinstance(entry, os.DirEntry), entry, entry.__class__, oct(entry.stat().st_mode), oct(os.lstat(tool.name).st_mode))
    for attempt in (lambda: pickle.dumps(entry), lambda: os.lstat(0), lambda: os.access(0, os.R_OK), lambda: os.statvfs("missing"), lambda: os.fstatvfs(".")):
        try:
            print(attempt())
        except (OSError, TypeError) as error:
            print(type(error).__name__, error)
