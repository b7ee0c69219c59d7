import csv, io, json, sqlite3, sys

mode, headers, separator, nullvalue, echo, bail = "list", False, None, "", False, False
out = sys.stdout
db, path = None, ":memory:"


def text(value):
    if value is None:
        return nullvalue
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return repr(value) if value != int(value) or abs(value) >= 1e15 else f"{value:.1f}"
    return str(value)


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "X'" + value.hex() + "'"
    return text(value) if isinstance(value, (int, float)) else "'" + value.replace("'", "''") + "'"


def show(names, rows):
    if mode == "json":
        if rows:
            out.write("[" + ",\n".join(json.dumps(dict(zip(names, r)), ensure_ascii=False, separators=(",", ":"), default=text) for r in rows) + "]\n")
    elif mode == "csv":
        writer = csv.writer(out, delimiter=separator or ",", lineterminator="\r\n" if separator is None else "\n")
        writer.writerows(([names] if headers else []) + [[text(v) for v in r] for r in rows])
    elif mode == "line":
        width = max(map(len, names), default=0)
        out.write("\n".join("".join(f"{n:>{width}} = {text(v)}\n" for n, v in zip(names, r)) for r in rows))
    elif mode in ("column", "table", "box", "markdown"):
        if not rows:
            return
        cells = [[text(v) for v in r] for r in rows]
        widths = [max([len(n)] + [len(r[i]) for r in cells]) for i, n in enumerate(names)]
        if mode == "column":
            line = lambda r: "  ".join(v.ljust(w) for v, w in zip(r, widths)).rstrip() + "\n"
            if headers:
                out.write(line(names) + "  ".join("-" * w for w in widths) + "\n")
            out.writelines(map(line, cells))
        else:
            bar = {"table": "|", "markdown": "|", "box": "│"}[mode]
            line = lambda r: bar + bar.join(f" {v.ljust(w)} " for v, w in zip(r, widths)) + bar + "\n"
            head = lambda r: bar + bar.join(f" {v.center(w)} " for v, w in zip(r, widths)) + bar + "\n"
            rule = {
                "markdown": lambda *_: "|" + "|".join("-" * (w + 2) for w in widths) + "|\n",
                "table": lambda *_: "+" + "+".join("-" * (w + 2) for w in widths) + "+\n",
                "box": lambda a, b, c: a + b.join("─" * (w + 2) for w in widths) + c + "\n",
            }[mode]
            out.write((rule("┌", "┬", "┐") if mode != "markdown" else "") + head(names) + rule("├", "┼", "┤"))
            out.writelines(map(line, cells))
            out.write(rule("└", "┴", "┘") if mode != "markdown" else "")
    elif mode == "insert":
        out.writelines("INSERT INTO \"table\" VALUES(" + ",".join(map(literal, r)) + ");\n" for r in rows)
    elif mode == "quote":
        out.writelines(",".join(map(literal, r)) + "\n" for r in rows)
    else:
        between = {"tabs": "\t"}.get(mode, separator or "|")
        if headers and rows:
            out.write(between.join(names) + "\n")
        out.writelines(between.join(map(text, r)) + "\n" for r in rows)


def fail(message):
    out.flush()
    sys.stderr.write(message + "\n")
    return 1


def sql(statement):
    try:
        cursor = db.execute(statement)
        if cursor.description:
            show([d[0] for d in cursor.description], cursor.fetchall())
        return 0
    except (sqlite3.Error, sqlite3.Warning) as error:
        kind = "Parse" if isinstance(error, sqlite3.OperationalError) and ("syntax" in str(error) or "no such" in str(error)) else "Runtime"
        return fail(f"{kind} error: {error}")


def dot(line):
    global mode, headers, separator, nullvalue, out, bail
    word, *rest = line.split()
    word = word[1:]
    on = lambda: rest and rest[0] in ("on", "yes", "1", "true")
    if word in ("quit", "exit", "q"):
        raise SystemExit(int(rest[0]) if rest else 0)
    elif word in ("headers", "header"):
        headers = on()
    elif word == "mode":
        mode = rest[0]
        if mode in ("column", "table", "box", "markdown"):
            headers = True
    elif word == "separator":
        separator = rest[0].strip("\"'").encode().decode("unicode_escape")
    elif word == "nullvalue":
        nullvalue = rest[0].strip("\"'") if rest else ""
    elif word == "bail":
        bail = on()
    elif word == "tables":
        like = rest[0] if rest else "%"
        names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table','view') AND name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY 1", (like,))]
        width = max(map(len, names), default=0)
        per = max(1, 80 // (width + 2))
        count = -(-len(names) // per)
        for row in range(count):
            out.write("  ".join(n.ljust(width) for n in names[row::count]).rstrip() + "\n")
    elif word in ("schema", "fullschema"):
        like = rest[0] if rest else "%"
        for (s,) in db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL AND (name LIKE ? OR tbl_name LIKE ?) ORDER BY rowid", (like, like)):
            out.write(s + ";\n")
    elif word in ("indexes", "indices"):
        out.writelines(r[0] + "\n" for r in db.execute("SELECT name FROM sqlite_master WHERE type='index' ORDER BY 1"))
    elif word == "databases":
        out.writelines(f"{r[1]}: {r[2] or chr(34) * 2} r/w\n" for r in db.execute("PRAGMA database_list"))
    elif word == "dump":
        out.writelines(s + "\n" for s in db.iterdump())
    elif word == "read":
        with open(rest[0]) as file:
            return run(file)
    elif word in ("output", "once"):
        out = open(rest[0], "w") if rest and rest[0] != "stdout" else sys.stdout
    elif word == "print":
        out.write(" ".join(rest).strip("\"'") + "\n")
    elif word == "import":
        words = [w for w in rest if not w.startswith("--")]
        table = words[1]
        with open(words[0], newline="") as file:
            rows = list(csv.reader(file, delimiter="," if mode == "csv" or "--csv" in rest else (separator or "|")))
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            names = rows.pop(0)
            db.execute(f'CREATE TABLE "{table}"(' + ", ".join(f'"{n}" TEXT' for n in names) + ")")
        elif "--skip" in rest:
            rows = rows[1:]
        for row in rows:
            db.execute(f'INSERT INTO "{table}" VALUES(' + ",".join("?" * len(row)) + ")", row)
    elif word not in ("timeout", "echo", "changes", "timer", "stats", "width", "log", "shell", "cd"):
        return fail(f'Error: unknown command or invalid arguments:  "{word}". Enter ".help" for help')
    return 0


def run(lines):
    code, statement = 0, ""
    for line in lines:
        if not statement.strip() and line.lstrip().startswith("."):
            code = dot(line.strip()) or code
        else:
            statement += line if line.endswith("\n") else line + "\n"
            # One line may hold several statements.
            while True:
                end = next((i + 1 for i, c in enumerate(statement) if c == ";" and sqlite3.complete_statement(statement[: i + 1])), None)
                if end is None:
                    break
                one, statement = statement[:end], statement[end:]
                code = sql(one) or code
                if code and bail:
                    return code
    return (sql(statement) if statement.strip() else 0) or code


def main(args):
    global mode, headers, separator, nullvalue, db, path, bail
    words, before = [], []
    while args:
        arg = args.pop(0)
        name = arg.lstrip("-")
        if not arg.startswith("-") or arg == "-":
            words.append(arg)
        elif name in ("header", "headers"):
            headers = True
        elif name in ("noheader", "noheaders"):
            headers = False
        elif name in ("csv", "json", "column", "list", "line", "table", "box", "markdown", "tabs", "quote"):
            mode = name
            if name in ("column", "table", "box", "markdown"):
                headers = True
        elif name == "separator":
            separator = args.pop(0)
        elif name == "nullvalue":
            nullvalue = args.pop(0)
        elif name == "cmd":
            before.append(args.pop(0))
        elif name == "bail":
            bail = True
        elif name == "version":
            print(sqlite3.sqlite_version)
            return 0
        elif name in ("batch", "interactive", "readonly", "safe", "nofollow"):
            pass
        elif name in ("init",):
            before += open(args.pop(0)).readlines()
        else:
            return fail(f"sqlite3: Error: unknown option: {arg}\nUse -help for a list of options.")
    path = words[0] if words else ":memory:"
    try:
        db = sqlite3.connect(path, isolation_level=None)
    except sqlite3.Error as error:
        return fail(f'Error: unable to open database "{path}": {error}')
    code = run(before)
    if len(words) > 1:
        for word in words[1:]:
            code = run(word.splitlines(True)) or code
            if code:
                break
    else:
        code = run(sys.stdin) or code
    out.flush()
    return code


sys.exit(main(sys.argv[1:]))
