# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""mysql-connector-python: see test_clients.py for what it must print."""

import sys
from typing import Any

import mysql.connector

connection: Any = mysql.connector.connect(
    host="127.0.0.1", port=int(sys.argv[1]), user="app", password="p", database="t", use_pure=True
)
cursor = connection.cursor(prepared=True)
for number in range(100):
    cursor.execute("INSERT INTO py (id, s) VALUES (?, ?)", (number, f"ü{number}"))
connection.commit()
cursor.execute("DELETE FROM py WHERE id >= ?", (50,))
connection.rollback()
cursor.execute("SELECT COUNT(*), MAX(s) FROM py WHERE id < ?", (10,))
print(*cursor.fetchall()[0])
plain = connection.cursor()
plain.execute("SELECT id, s FROM big")
print(*(sum(column) for column in zip(*((row[0], len(row[1])) for row in plain), strict=True)))
plain.execute("SELECT COUNT(*) FROM py")
print(plain.fetchone()[0])
connection.close()
