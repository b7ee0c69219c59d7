import importlib
import importlib.metadata
import importlib.resources
import pathlib
import pkgutil
import sys

# Every module of every distribution, as far as it does not start something or want what is not here.
LEFT_OUT = ("__main__", "networkx.conftest", "tqdm.contrib", "tqdm.keras", "tqdm.dask", "tqdm.rich", "tqdm.tk", "urllib3.contrib", "rich._win32", "rich._windows")
folder = pathlib.Path(importlib.import_module("yaml").__file__).parent.parent
tops = sorted(p.stem for p in folder.iterdir() if (p / "__init__.py").is_file() or p.suffix == ".py")
for top in tops:
    module = importlib.import_module(top)
    assert module.__file__.startswith(str(folder)), module.__file__
    assert module.__cached__ is None or pathlib.Path(module.__cached__).is_file(), module.__cached__
print(len(tops), *tops)

for distribution in sorted(importlib.metadata.distributions(), key=lambda d: d.name.lower()):
    if distribution.locate_file("") == folder:
        assert distribution.files and all(file.locate().is_file() for file in distribution.files), distribution.name
        print(distribution.name, distribution.version)
owners = importlib.metadata.packages_distributions()
print(owners["yaml"], owners["bs4"], owners["dateutil"], owners["markdown_it"])

print(len(pkgutil.get_data("certifi", "cacert.pem")) > 100_000)
print(importlib.resources.files("tzdata").joinpath("zoneinfo/Europe/Berlin").read_bytes()[:4])
with importlib.resources.as_file(importlib.resources.files("openpyxl") / "__init__.py") as path:
    print("openpyxl" in path.read_text())
print(sorted(m.name for m in pkgutil.iter_modules(importlib.import_module("yaml").__path__))[:4])
