# The command line of SQLite 3.40: options, dot commands, and the output modes with their widths and quotes.
import csv, itertools, re, sqlite3, sys

COLUMNAR = ("column", "table", "box", "markdown")
MODES = "ascii box column csv html insert json line list markdown qbox quote table tabs tcl"
# The separators of columns and rows that a mode sets. The others keep what is set.
SEPARATORS = {"list": ("|", "\n"), "csv": (",", "\r\n"), "tabs": ("\t", "\n"), "quote": (",", "\n"), "ascii": ("\x1f", "\x1e"), "tcl": (" ", "\n")}
mode, headers, headers_set, between, end, null, bail = "list", False, False, "|", "\n", "", False
widths, wrap, wordwrap, quote, table = [], 0, False, False, "table"
out, db, path = sys.stdout, None, ":memory:"


def real(value, digits=15):
    if value != value:
        return "NULL"
    if value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    number, mark, power = f"{value:.{digits}g}".partition("e")
    return number + ("" if "." in number else ".0") + mark + power


def text(value):
    if value is None:
        return null
    if isinstance(value, float):
        return real(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    # As in C, a text ends at NUL.
    return str(value).split("\0", 1)[0]


def literal(value, escaped=False):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "X'" + value.hex() + "'"
    if isinstance(value, float):
        return {"Inf": "1e999", "-Inf": "-1e999"}.get(real(value), real(value, 20))
    if isinstance(value, int):
        return str(value)
    quoted = "'" + text(value).replace("'", "''") + "'"
    if escaped:
        for char, names in (("\n", ("\\n", "\\012")), ("\r", ("\\r", "\\015"))):
            if char in quoted:
                numbered = (f"({names[0]}{number})" for number in itertools.count())
                mark = next(mark for mark in itertools.chain(names, numbered) if mark not in quoted)
                quoted = f"replace({quoted.replace(char, mark)},'{mark}',char({ord(char)}))"
    return quoted


def name(identifier):
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", identifier)
    return identifier if is_plain and identifier.lower() not in KEYWORDS else '"' + identifier.replace('"', '""') + '"'


KEYWORDS = set(
    "add all alter and as autoincrement between by case check collate column commit constraint create cross current_date current_time "
    "default deferrable delete distinct drop else escape except exists foreign from full group having if in index inner insert intersect into is "
    "isnull join left limit natural not notnull null on or order outer primary references right rollback select set table then to transaction "
    "union unique update using values when where with".split()
)


def json_text(value):
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda m: short.get(m[0], f"\\u{ord(m[0]):04x}"), value) + '"'


def json_value(value):
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return literal(value)
    return json_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)


def csv_field(value):
    if value is None:
        return null
    shown = text(value)
    quoted = not shown or between in shown or re.search(r"[\x00-\x20\"'\x7f-\U0010ffff]", shown)
    return '"' + shown.replace('"', '""') + '"' if quoted else shown


def tcl(value):
    short = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    encoded = "".join(chr(byte) for byte in text(value).encode())
    return '"' + "".join(short.get(c) or (c if " " <= c <= "~" else f"\\{ord(c):03o}") for c in encoded) + '"'


def html(value):
    return re.sub(r"[<&>\"']", lambda m: {"<": "&lt;", "&": "&amp;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}[m[0]], text(value))


def show(names, rows):
    if not rows:
        return
    if mode in COLUMNAR:
        columns(names, rows)
    elif mode == "json":
        fields = [json_text(field) for field in names]
        out.write("[" + ",\n".join("{" + ",".join(f"{n}:{json_value(v)}" for n, v in zip(fields, row)) + "}" for row in rows) + "]\n")
    elif mode == "line":
        width = max([5, *map(len, names)])
        out.write(end.join("".join(f"{n:>{width}} = {text(v)}{end}" for n, v in zip(names, row)) for row in rows))
    elif mode == "html":
        if headers:
            out.write("<TR>" + "".join(f"<TH>{html(n)}</TH>\n" for n in names) + "</TR>\n")
        out.writelines("<TR>" + "".join(f"<TD>{html(v)}</TD>\n" for v in row) + "</TR>\n" for row in rows)
    elif mode == "insert":
        start = f"INSERT INTO {name(table) if table != 'table' else chr(34) + 'table' + chr(34)}" + (f"({','.join(map(name, names))})" if headers else "")
        out.writelines(f"{start} VALUES({','.join(literal(v, True) for v in row)});\n" for row in rows)
    else:
        shown = {"csv": csv_field, "quote": literal, "tcl": tcl}.get(mode, text)
        lines = ([names] if headers else []) + rows
        out.writelines(between.join(map(shown, line)) + end for line in lines)


def columns(names, rows):
    """Writes columns as wide as their cells. A cell of several lines gives its row several lines."""
    set_widths = [widths[i] if i < len(widths) else 0 for i in range(len(names))]
    limits = [abs(width) or wrap or 1000000 for width in set_widths]
    head = [first_line(n, limit)[0] for n, limit in zip(names, limits)]
    lines, several = [], False
    for row in rows:
        rest = [literal(v) if quote and not isinstance(v, float) else text(v) for v in row]
        while True:
            cells = [("", None) if left is None else first_line(left, limit) for left, limit in zip(rest, limits)]
            rest = [left for _, left in cells]
            lines.append([[cell for cell, _ in cells], all(left is None for left in rest)])
            if lines[-1][1]:
                break
            several = True
    sizes = [max([abs(width), len(n), *(len(cells[i]) for cells, _ in lines)]) for i, (width, n) in enumerate(zip(set_widths, head))]
    pad = lambda cells: [cell.rjust(size) if width < 0 else cell.ljust(size) for cell, size, width in zip(cells, sizes, set_widths)]
    if mode == "column":
        if headers:
            out.write("  ".join(pad(head)) + "\n" + "  ".join("-" * size for size in sizes) + "\n")
        frame, rule = ("", "  ", "\n"), "\n"
    else:
        box = mode == "box"
        dash, bar = ("─", "│") if box else ("-", "|")
        cross = lambda a, b, c: a + b.join(dash * (size + 2) for size in sizes) + c + "\n"
        rule = cross("├", "┼", "┤") if box else cross("+", "+", "+") if mode == "table" else ""
        frame = (bar + " ", f" {bar} ", f" {bar}\n")
        if mode != "markdown":
            out.write(cross("┌", "┬", "┐") if box else rule)
        centred = (" " * ((size - len(n)) // 2) + n + " " * ((size - len(n) + 1) // 2) for n, size in zip(head, sizes))
        out.write(frame[0] + frame[1].join(centred) + frame[2] + (rule or cross("|", "|", "|")))
    for at, (cells, is_last) in enumerate(lines, 1):
        out.write(frame[0] + frame[1].join(pad(cells)) + frame[2])
        if several and is_last and at < len(lines):
            out.write(rule)
    if mode in ("box", "table"):
        out.write(cross("└", "┴", "┘") if mode != "table" else rule)


def first_line(value, limit):
    """Returns what fits in a line of `limit` characters, and the rest, or None."""
    line, at = "", 0
    while at < len(value) and len(line) < limit:
        if value[at] == "\t":
            line += " " * min(8 - len(line) % 8, limit - len(line))
        elif value[at] < " ":
            break
        else:
            line += value[at]
        at += 1
    if at < len(value) and value[at] not in "\r\n" and wordwrap:
        space = max(line.rfind(" "), line.rfind("-"))
        if space > limit // 2:
            at, line = at - (len(line) - space - 1), line[: space + 1].rstrip(" ")
    rest = value[at:]
    if rest.startswith(("\n", "\r\n")):
        rest = rest[rest.index("\n") + 1 :] or None
        return line, rest
    if rest and rest[0] < " " and not line:
        return "", rest[1:] or None
    return line, rest or None


def plan(rows):
    """Writes the tree of EXPLAIN QUERY PLAN."""
    out.write("QUERY PLAN\n")

    def below(parent, before):
        children = [row for row in rows if row[1] == parent]
        for at, row in enumerate(children, 1):
            is_last = at == len(children)
            out.write(before + ("`--" if is_last else "|--") + row[3] + "\n")
            below(row[0], before + ("   " if is_last else "|  "))

    below(0, "")


def fail(message):
    out.flush()
    sys.stderr.write(message + "\n")
    return 1


def sql(statement, line):
    try:
        cursor = db.execute(statement)
        if cursor.description:
            rows = cursor.fetchall()
            if re.match(r"\s*explain\s+query\s+plan\b", statement, re.I):
                plan(rows)
            else:
                show([d[0] for d in cursor.description], rows)
        return 0
    except (sqlite3.Error, sqlite3.Warning) as error:
        code = getattr(error, "sqlite_errorcode", 1) & 0xFF
        if line is None:
            return fail(f"Error: in prepare, {error}" if code == 1 else f"Error: stepping, {error} ({code})")
        return fail(f"Parse error near line {line}: {error}" if code == 1 else f"Runtime error near line {line}: {error} ({code})")


def words_of(line):
    """Splits a dot command: '...' is literal, "..." has the escapes of C."""
    found = re.findall(r"'((?:[^']|'')*)'|\"((?:\\.|[^\"\\])*)\"|(\S+)", line)
    escape = lambda m: {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}.get(m[1]) or (chr(int(m[1], 8) & 255) if m[1][0] in "01234567" else m[1])
    return [single.replace("''", "'") or re.sub(r"\\([0-7]{1,3}|.)", escape, double) or bare for single, double, bare in found]


def shown_mode():
    if mode not in COLUMNAR:
        return mode
    return f"{mode} --wrap {wrap} --wordwrap {'on' if wordwrap else 'off'} --{'' if quote else 'no'}quote"


def set_mode(words):
    global mode, headers, between, end, wrap, wordwrap, quote, table
    options, plain = iter(words), []
    columnar = {"wrap": 60, "wordwrap": False, "quote": False}
    for word in options:
        option = word.lstrip("-") if word.startswith("-") else None
        if option == "wrap":
            columnar["wrap"] = int(next(options, "0"))
        elif option in ("wordwrap", "ww"):
            columnar["wordwrap"] = True if option == "ww" else next(options, "on") in ("on", "yes", "1", "true")
        elif option in ("quote", "noquote"):
            columnar["quote"] = option == "quote"
        else:
            plain.append(word)
    if not plain:
        out.write(f"current output mode: {shown_mode()}\n")
        return 0
    match = next((known for known in MODES.split() if known.startswith(plain[0])), None)
    match = {"lines": "line", "columns": "column"}.get(plain[0], match)
    if match is None:
        return fail(f"Error: mode should be one of: {MODES}")
    between, end = SEPARATORS.get(match, (between, "\n" if match == "line" else end))
    mode = {"qbox": "box", "tabs": "list"}.get(match, match)
    if mode in COLUMNAR:
        wrap, wordwrap, quote = columnar.values()
        quote = quote or match == "qbox"
        headers = headers or (mode == "column" and not headers_set)
    if mode == "insert":
        table = plain[1] if len(plain) > 1 else "table"
    return 0


def schema(like):
    for kind, entry, statement in db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL AND (name LIKE ?1 OR tbl_name LIKE ?1) ORDER BY rowid", (like,)):
        if kind == "view":
            fields = ",".join(name(row[1]) for row in db.execute(f"PRAGMA table_info({name(entry)})"))
            statement += f"\n/* {name(entry)}({fields}) */"
        out.write(statement + ";\n")


def dump(like):
    out.write("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
    order = "ORDER BY tbl_name = 'sqlite_sequence', rowid"
    for entry, statement in db.execute(f"SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql NOT NULL AND name LIKE ? {order}", (like,)).fetchall():
        if entry == "sqlite_sequence":
            out.write("DELETE FROM sqlite_sequence;\n")
        elif entry.startswith("sqlite_"):
            continue
        else:
            out.write((re.sub("^CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", statement) if re.match("CREATE TABLE ['\"]", statement) else statement) + ";\n")
        for row in db.execute(f"SELECT * FROM {name(entry)}"):
            out.write(f"INSERT INTO {name(entry)} VALUES({','.join(literal(value, True) for value in row)});\n")
    for (statement,) in db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL AND type IN ('index', 'trigger', 'view') AND name LIKE ? ORDER BY type COLLATE NOCASE DESC", (like,)):
        out.write(statement + ";\n")
    out.write("COMMIT;\n")


def tables(like):
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY 1", (like,))]
    width = max(map(len, names), default=0)
    count = -(-len(names) // max(1, 80 // (width + 2)))
    for row in range(count):
        out.write("  ".join(entry.ljust(width) for entry in names[row::count]) + "\n")


def load(words):
    plain = [word for word in words if not word.startswith("-")]
    file, into = plain[0], plain[1]
    separator = "," if mode == "csv" or "--csv" in words or "-csv" in words else between
    with open(file, newline="") as source:
        rows = list(csv.reader(source, delimiter=separator))
    skip = next((int(words[i + 1]) for i, word in enumerate(words) if word in ("--skip", "-skip")), 0)
    if skip and plain[:1] == [str(skip)]:
        file, into = plain[1], plain[2]
    rows = rows[skip:]
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (into,)).fetchone():
        db.execute(f"CREATE TABLE {name(into)}(" + ", ".join(f'"{n}" TEXT' for n in rows.pop(0)) + ")")
    for row in rows:
        db.execute(f"INSERT INTO {name(into)} VALUES(" + ",".join("?" * len(row)) + ")", row)


def status():
    on = lambda value: "on" if value else "off"
    shown = lambda value: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    lines = [("echo", "off"), ("eqp", "off"), ("explain", "auto"), ("headers", on(headers)), ("mode", shown_mode()), ("nullvalue", f'"{shown(null)}"'), ("output", "stdout")]
    lines += [("colseparator", f'"{shown(between)}"'), ("rowseparator", f'"{shown(end)}"'), ("stats", "off"), ("width", "".join(f"{width} " for width in widths)), ("filename", path)]
    out.writelines(f"{label:>12}: {value}\n" for label, value in lines)


def dot(line):
    global headers, headers_set, between, end, null, out, bail, widths, db, path
    word, *rest = words_of(line[1:]) or [""]
    on = bool(rest) and rest[0].lower() in ("on", "yes", "1", "true")
    like = rest[0] if rest else "%"
    if word in ("quit", "exit", "q"):
        out.flush()
        raise SystemExit(int(rest[0]) if rest else 0)
    elif word in ("headers", "header"):
        headers, headers_set = on, True
    elif word == "mode":
        return set_mode(rest)
    elif word in ("separator", "sep") and rest:
        between, end = rest[0], rest[1] if len(rest) > 1 else end
    elif word == "nullvalue":
        null = rest[0] if rest else ""
    elif word == "width":
        widths = [int(width) for width in rest]
    elif word == "bail":
        bail = on
    elif word == "tables":
        tables(like)
    elif word in ("schema", "fullschema"):
        schema(next((word for word in rest if not word.startswith("-")), "%"))
    elif word in ("indexes", "indices"):
        out.writelines(row[0] + "\n" for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE ? ORDER BY 1", (like,)))
    elif word == "databases":
        out.writelines(f"{row[1]}: {row[2] or chr(34) * 2} r/w\n" for row in db.execute("PRAGMA database_list"))
    elif word == "dump":
        dump(like)
    elif word == "show":
        status()
    elif word == "read":
        with open(rest[0]) as file:
            return run(file)
    elif word in ("output", "once"):
        out.flush()
        out = open(rest[0], "w") if rest and rest[0] != "stdout" else sys.stdout
    elif word == "open":
        path = next((word for word in rest if not word.startswith("-")), ":memory:")
        db = sqlite3.connect(path, isolation_level=None)
    elif word in ("backup", "save") and rest:
        with sqlite3.connect(rest[-1]) as target:
            db.backup(target)
    elif word == "print":
        out.write(" ".join(rest) + "\n")
    elif word == "import":
        load(rest)
    elif word not in ("timeout", "echo", "changes", "timer", "stats", "log", "shell", "cd", "explain", "eqp", "binary"):
        return fail(f'Error: unknown command or invalid arguments:  "{word}". Enter ".help" for help')
    return 0


def run(lines, numbered=True):
    code, statement, start = 0, "", 1
    for number, line in enumerate(lines, 1):
        if not statement.strip():
            statement, start = "", number
        if not statement and line.lstrip().startswith("."):
            try:
                code = dot(line.strip()) or code
            except (OSError, ValueError, IndexError, sqlite3.Error) as error:
                code = fail(f"Error: {error}")
            continue
        statement += line if line.endswith("\n") else line + "\n"
        # One line may hold several statements.
        while True:
            ends = (i + 1 for i, c in enumerate(statement) if c == ";" and sqlite3.complete_statement(statement[: i + 1]))
            stop = next(ends, None)
            if stop is None:
                break
            one, statement = statement[:stop], statement[stop:]
            code = sql(one, start if numbered else None) or code
            # What follows an error on the command line does not run.
            if code and (bail or not numbered):
                return code
    return (sql(statement, start if numbered else None) if statement.strip() else 0) or code


def main(args):
    global mode, headers, headers_set, between, end, null, db, path, bail, wrap
    words, before = [], []
    while args:
        arg = args.pop(0)
        option = arg.lstrip("-")
        if not arg.startswith("-") or arg == "-":
            words.append(arg)
        elif option in ("header", "headers", "noheader", "noheaders"):
            headers, headers_set = not option.startswith("no"), True
        elif option in MODES.split():
            mode = option
            between = SEPARATORS.get(mode, (between,))[0]
            end = SEPARATORS[mode][1] if mode in ("ascii", "tabs") else end
            wrap, mode = 0, {"tabs": "list"}.get(mode, mode)
        elif option == "separator":
            between = args.pop(0)
        elif option == "newline":
            end = args.pop(0)
        elif option == "nullvalue":
            null = args.pop(0)
        elif option == "cmd":
            before.append(args.pop(0))
        elif option == "bail":
            bail = True
        elif option == "version":
            print(sqlite3.sqlite_version)
            return 0
        elif option in ("batch", "interactive", "readonly", "safe", "nofollow"):
            pass
        elif option == "init":
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
            code = run(word.splitlines(True), numbered=False) or code
            if code:
                break
    else:
        code = run(sys.stdin) or code
    out.flush()
    return code


sys.exit(main(sys.argv[1:]))
