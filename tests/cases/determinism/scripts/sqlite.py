import sqlite3
base = sqlite3.connect("/workspace/base.db")
base.execute("create table t(id integer primary key, r integer default (random()), at text default current_timestamp, b blob)")
for name in ["x", "y", "z"]:
    base.execute("insert into t(b) values (randomblob(8))")
base.commit()
print(base.execute("select id, r, at, hex(b), julianday('now'), strftime('%f', 'now') from t order by random()").fetchall())
print(base.execute("select count(distinct r), sqlite_version() from t").fetchall())
base.close()
