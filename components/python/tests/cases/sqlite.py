import sqlite3

with sqlite3.connect("data.db") as connection:
    connection.execute("create table t (a integer primary key, b text)")
    connection.executemany("insert into t (b) values (?)", [("x",), ("ü",)])
connection.close()
connection = sqlite3.connect("data.db")
print(connection.execute("select a, b, upper(b) from t order by a").fetchall())
try:
    connection.execute("select * from nope")
except sqlite3.OperationalError as error:
    print(error)
