# env: COLUMNS=80 NO_COLOR=1
import sys

import click
import click.testing
import docopt
import rich.console
import rich.table
import rich.tree
import tqdm
import typer
import typer.testing

USAGE = """Usage: tool [--fast] [-n N] <file>...

Options:
  -n N    How many [default: 3]
  --fast  Quickly
"""
print(dict(docopt.docopt(USAGE, ["-n", "5", "a", "b"])))
try:
    docopt.docopt(USAGE, ["--slow"])
except SystemExit as stop:
    print(stop.code)


@click.group()
def group():
    pass


@group.command()
@click.option("--count", default=1, show_default=True, help="How often.")
@click.argument("name", type=click.Choice(["ann", "bob"]))
def greet(count, name):
    for _ in range(count):
        click.echo(click.style(f"Hello {name}", fg="green"))


for arguments in (["greet", "--count", "2", "ann"], ["greet", "eve"], ["greet", "--help"], []):
    result = click.testing.CliRunner().invoke(group, arguments)
    print(result.exit_code, result.output)

app = typer.Typer(add_completion=False)


@app.command()
def add(a: int, b: int = 2, loud: bool = typer.Option(False, help="Shout.")):
    """Adds."""
    typer.echo(f"{a + b}{'!' if loud else ''}")


@app.command()
def fail():
    raise typer.Exit(3)


for arguments in (["add", "1", "--b", "5", "--loud"], ["add", "x"], ["add", "--help"], ["fail"]):
    result = typer.testing.CliRunner().invoke(app, arguments)
    print(result.exit_code, result.output)

console = rich.console.Console(width=60, file=sys.stdout)
table = rich.table.Table(title="Prices")
table.add_column("item")
table.add_column("price", justify="right")
table.add_row("[bold]tea[/bold]", "1.20")
console.print(table)
tree = rich.tree.Tree("root")
tree.add("leaf").add("deeper")
console.print(tree)
console.print({"a": [1, 2, {"b": "c"}]})
console.print_json('{"x": [1, null]}')

print(sum(tqdm.tqdm(range(5), file=sys.stderr, disable=None)))
with tqdm.tqdm(total=3, ascii=True, mininterval=0, file=open("bar.txt", "w")) as bar:
    bar.update(3)
print(bar.n, "100%" in open("bar.txt").read())
