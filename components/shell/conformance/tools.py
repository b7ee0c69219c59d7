"""Compares the shell's builtins and commands with the machine's bash, awk, sed, grep, tr, jq and sqlite3 on generated programs: exit code and stdout.

    python3 components/shell/conformance/tools.py --skillhost PATH [--seed N] [--count N] [--print] [NAME...]

NAME is FAMILY or FAMILY:NUMBER; with names, the differences are shown. A program is made of pieces that a generator picks by the seed, the family
and the number, so that each stays the same when others are added. Backslashes are frequent in all of them, because the originals treat those
differently.

`tools.txt` lists the programs of the default seed that differ, with reasons. A program that differs without a line there is an error, and so is a
line whose program agrees.
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from both import HERE, PROGRAMS, SKILL, Both, check, parts, reasons

LIST = HERE / "tools.txt"
SEED, COUNT, BATCH = 1, 200, 40
GOAL = 98
TEXT = ["a", "b", "c", "ab", "x1", "foo", "Bar", "42", "7", " ", "  ", "é", "ü", "-", "_", ".", ",", ":", "/", "+", "*", "?", "^", "|", "(", ")", "[", "]", "{", "}", "#", "%", "&", "=", "~"]
LINES = ["alpha beta gamma", "one,two,,four", "  padded  text ", "a\\\\b\\\\n", "key=value=more", "tab\\there", "42 -7 3.50 1e3", "foo.bar(baz)", "[x] {y} <z>", "the quick brown fox", "aaa bbb aab abb", "", "ÄÖ é ü", "end\\\\", "100%"]


def pick(r, items, most=4):
    return "".join(r.choice(items) for _ in range(r.randint(1, most)))


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def lines(r, among=LINES):
    """Returns a command that prints some lines."""
    return "printf '" + "\\n".join(r.choice(among).replace("%", "%%") for _ in range(r.randint(1, 5))) + "\\n'"


ESCAPES = [r"\a", r"\b", r"\e", r"\f", r"\n", r"\r", r"\t", r"\v", r"\\", r"\'", r"\"", r"\?", r"\0", r"\01", r"\0101", r"\101", r"\7", r"\18", r"\x41", r"\x4", r"\x", r"\xg", r"\u41", r"\u00e9", r"\u", r"\U1F600", r"\q", r"\ ", r"\.", r"\&", r"\/", "\\"]


def echo(r):
    text = pick(r, TEXT + ESCAPES * 2 + ([r"\c"] if r.random() < 0.2 else []), 8)
    return f"echo {r.choice(['-e', '-e', '-ne', '-E', '', '-en', '-e -n', '-x', '--'])} {quoted(text)}"


def printf(r):
    if r.random() < 0.4:
        return f"printf {quoted(pick(r, TEXT[:-7] + ESCAPES * 2, 7))}"
    flags, width = r.choice(["", "", "-", "0", "+", " ", "#", "-0", "'"]), r.choice(["", "", "3", "8", "12", "*"])
    precision = r.choice(["", "", ".0", ".2", ".5", ".", ".*"])
    kind = r.choice("bsdiouxXcqeEfgG")
    if flags == "'":
        flags = ""
    if kind in "bq":
        flags = flags.replace("0", "").replace("#", "").replace("+", "").replace(" ", "")
    stars = [str(r.randint(-6, 9)) for _ in range((width + precision).count("*"))]
    numbers = ["0", "5", "-7", "010", "0x1F", "42abc", "", "3.75", "1e3", "'A", '"é', "99999999999", "-0", "+3", " 8"]
    words = [pick(r, TEXT + ESCAPES, 4) for _ in range(3)]
    values = [r.choice(numbers if kind in "diouxXeEfgG" else words) for _ in range(r.randint(0, 3))]
    form = "<%" + flags + width + precision + kind + r.choice([">", r">\n", r">\t", r"> %s|"])
    return f"printf {quoted(form)} {' '.join(quoted(value) for value in stars + values)}; echo \"[$?]\""


def read(r):
    data = pick(r, ["a", "b c", " ", "  ", ":", ",", r"\\", r"\ ", r"\n", r"\:", r"\\\\", "\\\\\n", "\n", "\t", "é", r"x\y", r"\,"], 10)
    separators = r.choice(["", "IFS=", "IFS=:", "IFS=' :'", "IFS=,", "IFS=$'\\t'", "IFS='\\'"])
    options = r.choice(["", "-r", "-r", "-a v", "-r -a v", "-n 3", "-r -n 4", "-N 4", "-d :", "-r -d ''", "-r -d ,"])
    names = "" if "-a" in options else r.choice(["", "x", "x y", "x y z"])
    shown = '"${v[@]}"' if "-a" in options else '"$x" "$y" "$z" "$REPLY"'
    return f"printf {quoted(data.replace('%', '%%'))} | {{ while {separators} read {options} {names}; do printf '[%s]' {shown}; echo; unset v REPLY; done; printf '<%s>' {shown}; }}"


def tr(r):
    sets = ["a-c", "[:upper:]", "[:lower:]", "[:digit:]", "[:space:]", "[:alnum:]", "[:punct:]", r"\n", r"\t", r"\\", r"\041", r"\101", "abc", "x", "-", "a-", r"\-", r"\]", "[a]", "[=a=]", "[x*3]", "[x*]", "0-9", r"\q", r"a\-z", " "]
    how = r.random()
    if how < 0.4:
        command = f"tr {r.choice(['', '-s', '-c', '-C'])} {quoted(pick(r, sets, 2))} {quoted(pick(r, sets[7:], 2))}"
    elif how < 0.7:
        command = f"tr {r.choice(['-d', '-s', '-cd', '-dc', '-cs'])} {quoted(pick(r, sets, 2))}"
    else:
        command = f"tr {r.choice(['-ds', '-t', '-cds'])} {quoted(pick(r, sets, 2))} {quoted(pick(r, sets, 2))}"
    return f"{lines(r, AWK_LINES)} | {command}"


ATOMS = ["a", "b", "o", "foo", ".", "[a-c]", "[^a]", "[[:space:]]", "[[:alpha:]]", "[]x]", "[a\\]", r"\.", r"\\", r"\w", r"\s", r"\b", r"\W", r"\/", r"\n", r"\t", "e", " ", ",", "=", "^", "$", "é", r"\[", r"\*"]


# What every awk has: no classes of GNU, no counts, and bytes are not characters everywhere.
AWK_ATOMS = [atom for atom in ATOMS if atom not in (r"\w", r"\s", r"\b", r"\W", r"\/", "[a\\]", "é")]
AWK_LINES = [line for line in LINES if line.isascii()]


def pattern(r, extended, atoms=ATOMS):
    text = ""
    for _ in range(r.randint(1, 3)):
        atom = r.choice(atoms)
        if r.random() < 0.3:
            atom = f"({atom})" if extended else f"\\({atom}\\)"
        repeat = r.choice(["", "", "", "*", "+" if extended else "\\+", "?" if extended else "\\?", "{2}" if extended else "\\{2\\}", "{1,2}" if extended else "\\{1,2\\}"])
        if atoms is AWK_ATOMS and "{" in repeat:
            repeat = ""
        text += atom + ("" if atom in ("^", "$", r"\b") else repeat)
    if r.random() < 0.15:
        text += ("|" if extended else "\\|") + r.choice(ATOMS[:8])
    return r.choice(["", "", "", "^"]) + text + r.choice(["", "", "", "$"])


def sed(r):
    extended = r.random() < 0.5
    replacement = pick(r, ["X", "<&>", r"\&", r"\n", r"\t", r"\\", r"\/", "y", r"\U&", r"\u&", r"\L&\E.", r"\x41", r"\.", "é", "-", r"\0"], 3)
    command = r.choice([
        lambda: f"s/{pattern(r, extended)}/{replacement}/{r.choice(['', 'g', '2', 'gI', 'p', 'i'])}",
        lambda: f"s|{pattern(r, extended).replace('|', '')}|{replacement.replace('|', '')}|g",
        lambda: r.choice(["y/abc/xyz/", r"y/a\/b/1\\2/", r"y/ab\n/12 /", r"y,a\,b,12\n,"]),
        lambda: f"/{pattern(r, extended)}/{r.choice(['d', 'p', '!d', '=', 'q', 'Q', 'l'])}",
        lambda: r.choice(["1", "$", "2,3", "2,$", "1~2", "0,/a/", "/a/,/e/", "2,+1", "1!"]) + r.choice(["d", "p", "s/a/[&]/g", "=", r"a\  new", r"i\\x", r"c\ttab", "a new\\nline", "y/a/b/"]),
        lambda: r.choice(["N;s/\\n/-/", "$!N;P;D", "1!G;h;$!d", "x;p;x", "H;$!d;x;s/\\n/,/g", ":a;s/^\\(.*\\)aa/\\1b/;ta", "n;d", "l", "l 20", "s/a/b/;T;s/$/!/"]),
    ])()
    options = " ".join(option for option in [r.choice(["", "", "-n"]), "-E" if extended else "", r.choice(["", "", "", "-s", "-z"])] if option)
    return f"{lines(r)} | sed {options} {quoted(command)}"


AWK = [
    '{ print $1 + 0, $2 * 2, -$1, !$1, $1 "" }',
    'BEGIN { x["a"]; if ("a" in x) print "in"; delete x["a"]; print length(x) }',
    '{ c[$1]++ } END { for (k in c) n += c[k]; print n, NR }',
    'NR % 2 { next } { print }',
    '{ while (i++ < 3) printf "%d ", i; print "" }',
    'BEGIN { while ((getline line) > 0) print "got " line }',
    'BEGIN { print substr("hello", 2), 1e6, 0.1 + 0.2, 1000 * 1000, 2 ^ 10, 7 % 3, -7 % 3 }',
    '{ print NF ? $NF : "none" }',
    'BEGIN { print 1 == 1.0, "a" < "b", "10" < "9", 10 < 9, "a" ~ /A/ }',
    'BEGIN { OFS = "-"; $0 = "a b c"; $1 = $1; print; print $0 }',
    'BEGIN { printf "%s %d %c%c\\n", "a", "3x", 65, "BC" }',
    '{ print > "/dev/stderr"; print "x" | "cat" }',
    'function f(a, b) { b = a * 2; return b } BEGIN { print f(21), b == "" }',
    'BEGIN { CONVFMT = "%.2g"; a = 3.14159; b = a ""; print b; OFMT = "%.3f"; print a }',
    'BEGIN { print length(), toupper("e"), sprintf("%3s|", "e") }',
]


def awk(r):
    # Other escapes are undefined: mawk keeps their backslash, gawk does not.
    escapes = [r"\n", r"\t", r"\\", r"\"", r"\101", r"\a", "a", " ", "%", "&", "."]
    text = pick(r, escapes, 5)
    expression = pattern(r, True, AWK_ATOMS).replace("/", "")
    replacement = pick(r, ["X", "&", r"\\&", r"\\\\&", r"\\\\\\&", r"\\", "-", r"\t"], 3)
    dynamic = r.choice(["a", "[.]", "a+", "b|o", "^ *", r"\\."])
    separator = r.choice(["/,/", '" "', "/[ ,]+/", '"="', '""', "/a/", '"."', '"|"'])
    form = r.choice(["%5s|", "%-6s|", "%d|", "%5.2f|", "%x|", "%c|", "%o|", "%e|", "%.3s|", "%i|", "%+d|", "%05d|", "%g|", "%%|%s|"]) + text.replace("%", "")
    program = r.choice(
        [
            f'{{ print "{text}" $1 }}',
            f'{{ n = gsub(/{expression}/, "{replacement}"); print n, $0 }}',
            f'{{ sub("{dynamic}", "{replacement}"); print }}',
            f'{{ n = split($0, p, {separator}); for (i = 1; i <= n; i++) printf "%s;", p[i]; print n }}',
            f'{{ printf "{form}\\n", ${r.randint(0, 3)} }}',
            f"$0 ~ /{expression}/ {{ print NR \": \" $0 }}",
            f'{{ print length($0), toupper(substr($0, {r.randint(1, 4)}, {r.randint(0, 6)})), index($0, "{r.choice(["a", " ", "foo"])}") }}',
            f"{{ print match($0, /{expression}/), RSTART, RLENGTH }}",
            f'{{ ${r.randint(1, 4)} = "{r.choice(["Z", "", "q r"])}"; print; print NF }}',
            r.choice(AWK),
        ]
    )
    option = r.choice(["", "", "", "-F,", "-F=", "-F '[ ,]'", "-F '\\t'", "-v 'x=a\\tb'", "-F '|'"])
    return f"{lines(r, AWK_LINES)} | awk {option} {quoted(program)}"


def grep(r):
    kind = r.choice(["", "-E", "-E", "-F", "-P"])
    expression = pattern(r, kind in ("-E", "-P")) if kind != "-F" else pick(r, TEXT[:20], 2)
    options = " ".join(sorted({r.choice(["-o", "-c", "-n", "-v", "-i", "-w", "-x", "-b", "-m1", "-A1", "-B1", "-h", "-q", "-l", "-on", "-oi"]) for _ in range(r.randint(0, 2))}))
    return f"{lines(r)} | grep {kind} {options} -e {quoted(expression)}"


DATA = ['{"a":1,"b":[1,2,{"c":"x\\\\ty"}],"d":null,"e":"é\\\\n"}', '[3,1,2,null,"b","a",[1],{"k":2}]', '{"users":[{"n":"Al","age":30},{"n":"Bo","age":25}],"t":true}', '"a\\\\\\\\b\\\\u0041"', '[1.5,100,1e3,-0.25,1e-7]', '"2024-02-03T04:05:06Z"', '{"x":{"y":{"z":[]}}}', '[]', 'null', '"a,b, c"']


JQ = [
    '.', 'keys?', 'length', 'type', 'to_entries?', '.[]?', '..|scalars', '[..]|length', 'tojson', 'tostring', '@json', '@text', '@html',
    'map(.)?', 'add?', 'sort?', 'reverse?', 'flatten?', 'paths|join(".")?', '[leaf_paths]', 'del(.a)?', 'not', 'first?', 'tojson|fromjson',
    'ascii?', 'explode?', 'min?, max?', '[range(5)]|map(select(. % 2 == 0))', 'reduce range(4) as $i (0; . + $i)', '[limit(2; .[]?)]',
    'if type == "array" then "arr" elif . then "yes" else "no" end', 'try error("x\\\\ny") catch .', '. as [$a, $b] | {a: $a, b: $b}',
    '[.[]?|numbers]|add', 'with_entries(.value |= tostring)?', 'group_by(type)?', 'unique?', 'input_line_number', '$ENV|type',
    '[splits(", *")]?', 'ascii_downcase?', '@csv?', '@tsv?', 'map(tostring)?|join("-")?', '[.[]?|tostring]|sort', 'tojson|test("\\\\\\\\")',
    'fromdate?', 'strptime("%Y-%m-%dT%H:%M:%SZ")?|mktime', 'walk(if type == "number" then . + 1 else . end)', 'env|type', 'indices("a")?',
    'any?, all?', 'getpath(["a"])?', 'to_entries?|map(.key)?', 'tojson|@base64|@base64d', '(1,2) as $x | $x * 2', 'def f(x): x + 1; f(3)',
    '[.[]?] | .[1:3]', 'has("a")?, has(0)?', 'infinite, -infinite | tostring', '1 / 3, 10 / 2, 1e17, 3.0, 1.10', '"\\\\(1;2)"?',
    '[foreach range(3) as $i (0; . + $i)]', 'ltrimstr("a")?, rtrimstr("b")?', 'splits("b")?', 'tostream', '[match("a|é"; "g")?|.offset]',
    'capture("(?<x>[a-z]+)")?', 'scan("[a-z]")?', 'limit(3; repeat(1))', '.[0]? // "d"', 'error?', 'halt_error?', 'significand?, logb?',
    'floor?, sqrt?',
]
UPDATES = [
    'ascii_upcase', 'length', 'test("a")', 'sub("a"; "b")', 'gsub("[a-z]"; ".")', 'split(",")', 'ltrimstr("a")', '. + "!"', '@base64',
    '@uri', '@sh', 'explode',
]


def jq(r):
    path = "." + r.choice(["a", "b", "users", "x", "d"]) + "?" + r.choice(["", "[]?", "[0]?", "[-1:]?", ' // "none"', "|length?"])
    text = pick(r, [r"\n", r"\t", r"\\", r"\u00e9", "a", r"\(1+1)", r"\(.|type)", " ", r"\/"], 4)
    program = r.choice([r.choice(JQ), path, f'"{text}"', f"(.. | strings) |= {r.choice(UPDATES)}", r.choice(JQ)])
    option = r.choice(["", "-r", "-c", "-c", "-j", "-S", "-e", "--tab", "-rc", "-a", "-sc", "-n"])
    return f"printf '%b\\n' {quoted(r.choice(DATA))} | jq {option} {quoted(program)}"


def sqlite3(r):
    values = ["1", "-22", "2.5", "1e20", "NULL", "'text'", "'two words'", "'é ü'", "'a,b'", "'q\"q'", "'it''s'", "x'00ff'", "''", "'tab\tx'", "'multi\nline'", "0.1", "'back\\slash'", "'<b>&'", "123456789012", "'" + "long " * 14 + "'"]
    rows = ", ".join(f"({', '.join(r.choice(values) for _ in range(3))})" for _ in range(r.randint(0, 4)))
    make = "CREATE TABLE t(a, \"long name\" TEXT, c REAL);" + (f" INSERT INTO t VALUES{rows};" if rows else "")
    modes = ["ascii", "box", "column", "csv", "html", "insert", "insert tt", "json", "line", "list", "markdown", "quote", "table", "tabs", "tcl", "column", "column", "column --wrap 12", "box --wordwrap on", "qbox"]
    dots = [".headers on", ".headers off", ".nullvalue -", ".width 4 -10 3", ".width 12", ".separator ;", ".separator \"\\t\"", ".tables", ".schema", ".dump", ".mode", ".show", ".print 'x y' \"a\\tb\"", ".indexes", "CREATE INDEX i ON t(a);", "CREATE VIEW v AS SELECT a, c FROM t;", "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1;", "SELECT nosuch FROM t;"]
    words = [f".mode {r.choice(modes)}" if r.random() < 0.8 else r.choice(dots) for _ in range(r.randint(1, 2))] + [r.choice(dots) for _ in range(r.randint(0, 3))]
    r.shuffle(words)
    options = " ".join(r.choice(["-header", "-column", "-csv", "-json", "-box", "-line", "-separator ';'", "-nullvalue NULL", "-table", "-markdown", "-noheader", "-html", "-quote", "-list"]) for _ in range(r.randint(0, 2)))
    text = [make, *words, r.choice(["SELECT * FROM t;", "SELECT a, c AS \"C c\" FROM t;", "SELECT count(*), max(c) FROM t;", "SELECT * FROM t WHERE 0;", "SELECT 1, 'x'; SELECT 2;"])]
    if r.random() < 0.3:
        return f"sqlite3 {options} :memory: " + " ".join(quoted(word) for word in text)
    return f"printf '%s\\n' {' '.join(quoted(word) for word in text)} | sqlite3 {options}"


FAMILIES = {family.__name__: family for family in (awk, echo, grep, jq, printf, read, sed, sqlite3, tr)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help="the folder of built-in programs")
    parser.add_argument("--seed", type=int, default=SEED, help=f"another seed than {SEED}: its differences are only shown")
    parser.add_argument("--count", type=int, default=COUNT, help=f"the programs of each family [{COUNT}]")
    parser.add_argument("--print", action="store_true", help="only print the programs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs, with their differences")
    args = parser.parse_args()
    programs = {}
    for family, generate in FAMILIES.items():
        for number in range(args.count):
            name = f"{family}:{number}"
            if not args.names or family in args.names or name in args.names:
                programs[name] = generate(random.Random(f"{args.seed} {name}"))
    if args.print:
        print("\n".join(f"{name} {text!r}" for name, text in programs.items()))
        return
    versions = {tool: version(tool) for tool in ("awk", "bash", "grep", "jq", "sed", "sqlite3", "tr")}
    missing = sorted(tool for tool, text in versions.items() if text is None)
    if missing:
        sys.exit(f"error: this machine lacks {', '.join(missing)}")
    print("; ".join(versions.values()))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, pathlib.Path(folder).resolve())
        names = sorted(programs)
        batches = [{name: programs[name] for name in names[at : at + BATCH]} for at in range(0, len(names), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = {name: result for batch in pool.map(runner.compare, batches) for name, result in batch.items()}
    report(programs, results, bool(args.names) or args.seed != SEED or args.count != COUNT)


def version(tool):
    path = shutil.which(tool)
    if path is None:
        return None
    for option in ("--version", "-Wversion"):
        done = subprocess.run([path, option], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout:
            return done.stdout.splitlines()[0]
    return tool


class Runner:
    def __init__(self, args, folder):
        self.both, self.folder, self.skill = Both(args.skillhost, args.programs, folder), folder, folder / "skill"
        (self.skill / "batches").mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)

    def compare(self, batch):
        """Returns what bash and the shell do, for each program of the batch."""
        name = next(iter(batch)).replace(":", "-")
        text = "".join(f"( {program}\n) </dev/null 2>/dev/null; printf '\\n@@%s %s@@\\n' {name} \"$?\"\n" for name, program in batch.items())
        (self.skill / "batches" / name).write_text(text)
        start = f"exec bash /skill/batches/{name}"
        place = self.folder / name
        native = parts(self.both.native(["bash", "-c", start], self.skill, place / "native")[1])
        ours = parts(self.both.sandboxed(["--command", start], self.skill, place / "here")[1])
        shutil.rmtree(place, ignore_errors=True)
        print(f"{name}: {sum(native.get(name) == ours.get(name) for name in batch)} of {len(batch)}", file=sys.stderr, flush=True)
        return {name: (native.get(name), ours.get(name)) for name in batch}


def report(programs, results, detailed):
    known = reasons(LIST)
    differing, same = [], 0
    for name in programs:
        native, ours = results[name]
        agrees = native == ours
        same += agrees
        if not agrees:
            differing.append(name)
        if not agrees and (detailed or name not in known):
            print(f"--- {name}: {programs[name]}")
            print("\n".join(difflib.unified_diff(repr(native).split("\\n"), repr(ours).split("\\n"), "native", "here", lineterm="")))
    share = 100 * same / max(1, len(programs))
    for family in FAMILIES:
        names = [name for name in programs if name.startswith(family + ":")]
        print(f"{family}: {sum(results[name][0] == results[name][1] for name in names)} of {len(names)}")
    print(f"{same} of {len(programs)} programs ({share:.1f} %) as in the originals")
    if detailed:
        return
    same = check(LIST, differing, programs)
    sys.exit(0 if same and share >= GOAL else 1)


if __name__ == "__main__":
    main()
