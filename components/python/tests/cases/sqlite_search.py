import sqlite3

DOCUMENTS = [
    ("Bread", "Mix flour and water. Let the dough rise, then bake the loaf."),
    ("Crème brûlée", "Whisk the yolks with sugar; bake slowly and burn the sugar."),
    ("Running", "He runs daily. Runners ran before breakfast, running past the bakery."),
    ("Straße", "Größe, Ärger und Übung: ein Text mit Umlauten."),
]


def rows(connection, query, *values):
    return connection.execute(query, values).fetchall()


connection = sqlite3.connect(":memory:")
connection.execute("create virtual table t using fts5(x)")
print(rows(connection, "select * from t"), [name for (name,) in rows(connection, "select name from sqlite_master order by name")])

# FTS5: queries, ranking and auxiliary functions.
connection.execute("create virtual table docs using fts5(title, body, tokenize = 'porter unicode61 remove_diacritics 2', prefix = '2 3')")
connection.executemany("insert into docs values (?, ?)", DOCUMENTS)
for query in ("bake", "run*", "creme", "flour AND water", "bake NOT dough", "title: bread", '"brule"', "NEAR(flour loaf, 9)", "^mix", "GRÖSSE OR größe", "{title body}: sugar"):
    print(query, rows(connection, "select rowid, title from docs where docs match ? order by rank", query))
print([(title, round(rank, 6)) for title, rank in rows(connection, "select title, bm25(docs, 10.0, 1.0) from docs where docs match 'bake OR sugar' order by 2")])
print(rows(connection, "select highlight(docs, 1, '[', ']'), snippet(docs, 1, '<', '>', '...', 4) from docs('run')"))
connection.execute("update docs set body = 'Nothing to see' where title = 'Running'")
connection.execute("delete from docs where rowid = 1")
print(rows(connection, "select count(*) from docs('run')"), rows(connection, "select count(*) from docs('bake')"), rows(connection, "select rowid from docs('nothing')"))
for command in ("optimize", "rebuild", "integrity-check"):
    connection.execute("insert into docs(docs) values (?)", (command,))
connection.execute("create virtual table terms using fts5vocab(docs, row)")
print(rows(connection, "select term, doc, cnt from terms where term >= 's' order by term"))
for query in ('"unbalanced', "nowhere: x", "AND"):
    try:
        rows(connection, "select * from docs(?)", query)
    except sqlite3.OperationalError as error:
        print(error)

# Other tokenizers, and tables that keep their content elsewhere.
connection.execute("create virtual table parts using fts5(word, tokenize = 'trigram')")
connection.executemany("insert into parts values (?)", [("foobar",), ("barbecue",), ("grün",)])
print(rows(connection, "select word from parts where word match 'bar' order by word"), rows(connection, "select word from parts where word like '%beCU%'"))
connection.executescript("""
    create table notes (id integer primary key, text);
    create virtual table notes_search using fts5(text, content = 'notes', content_rowid = 'id');
    create trigger added after insert on notes begin insert into notes_search(rowid, text) values (new.id, new.text); end;
    create trigger removed after delete on notes begin insert into notes_search(notes_search, rowid, text) values ('delete', old.id, old.text); end;
    insert into notes(text) values ('first note'), ('second note');
    delete from notes where id = 1;
""")
print(rows(connection, "select rowid, text from notes_search('note')"))
connection.execute("create virtual table bare using fts5(a, content = '')")
connection.execute("insert into bare(rowid, a) values (7, 'seven lives')")
print(rows(connection, "select rowid, a from bare('lives')"))

# FTS4 and R-trees.
connection.execute("create virtual table old using fts4(title, body, tokenize=porter)")
connection.executemany("insert into old values (?, ?)", DOCUMENTS)
print(rows(connection, "select docid, offsets(old), snippet(old, '[', ']') from old where old match 'bake AND (sugar OR dough)'"))
connection.execute("create virtual table boxes using rtree(id, left, right, top, bottom)")
connection.executemany("insert into boxes values (?, ?, ?, ?, ?)", [(1, 0, 10, 0, 10), (2, 20, 30, 0, 5)])
print(rows(connection, "select id from boxes where left <= 25 and right >= 25 and top <= 1"))

# In a file, and many rows.
with sqlite3.connect("search.db") as file:
    file.execute("create virtual table log using fts5(line, detail = none)")
    file.executemany("insert into log values (?)", ((f"event {number} of kind k{number % 97} at host h{number % 13}",) for number in range(20_000)))
file.close()
file = sqlite3.connect("search.db")
print(rows(file, "select count(*) from log('k7')"), rows(file, "select count(*) from log('k7 AND h7')"), rows(file, "select rowid from log('19999')"))
print(rows(file, "pragma integrity_check"))
file.execute("drop table log")
print(rows(file, "select count(*) from sqlite_master"))
file.close()
file = sqlite3.connect("search.db")
print(rows(file, "pragma locking_mode = exclusive"), rows(file, "pragma journal_mode = wal"), file.execute("create virtual table log using fts5(line)").fetchall())
file.close()

# The other parts of SQLite are those of the same build.
print(rows(connection, "select sqlite_version()") == [(sqlite3.sqlite_version,)], sqlite3.sqlite_version == ".".join(map(str, sqlite3.sqlite_version_info)))
print(rows(connection, "select datetime(0, 'unixepoch', 'localtime'), soundex('Robert'), round(sin(1), 9), json('[1, 2]') ->> 1, median(column1) from (values (1), (2), (9))"))
print(rows(connection, "select 9007199254740993.0, 1.1e-200, 0.1 + 0.2, -1e300, 123456789012345678"), rows(connection, "select printf('%.17g %.3f %e', 1 / 3.0, 2.5, 1e-5)"))
print(len(rows(connection, f"select {', '.join('?' * 1500)}", *range(1500))[0]), rows(connection, f"select 1 in ({', '.join('?' * 40_000)})", *range(40_000)))
# No shared libraries.
try:
    rows(connection, "select load_extension('fts5')")
except sqlite3.OperationalError as error:
    print(type(error).__name__)
