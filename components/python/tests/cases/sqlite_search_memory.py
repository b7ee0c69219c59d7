# sandbox: a native python3 has more memory
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create virtual table t using fts5(x)")
text, size = "".join(f"word{number:x} " for number in range(100_000)), 0
try:
    while True:
        connection.execute("insert into t values (?)", (text,))
        size += len(text)
except MemoryError:
    print("MemoryError", 10 << 20 < size < 256 << 20)
connection.rollback()
connection.close()
connection = sqlite3.connect(":memory:")
connection.execute("create virtual table t using fts5(x)")
connection.execute("insert into t values ('after that')")
print(connection.execute("select * from t('after')").fetchall(), hasattr(connection, "enable_load_extension"))
