-- Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
-- A sysbench script: each thread creates and drops a table of its own, again and again.

sysbench.cmdline.options = {
  tables = {"Not used; given to all scripts.", 0},
  table_size = {"Not used; given to all scripts.", 0},
}

function thread_init()
  connection = sysbench.sql.driver():connect()
  name = string.format("created_%d", sysbench.tid)
end

function event()
  connection:query("CREATE TABLE " .. name .. " (id INT PRIMARY KEY, c VARCHAR(100), KEY (c))")
  connection:query("DROP TABLE " .. name)
end

function thread_done()
  connection:disconnect()
end
