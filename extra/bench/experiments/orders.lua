-- Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
-- A sysbench script: a wholesaler whose customers order, pay and ask, in transactions of many statements on hot rows, in the
-- shares of TPC-C (order 45 %, payment 43 %, status, delivery and stock 4 % each). It is not TPC-C: there are no think
-- times, no terminals and fewer columns. --tables is the number of warehouses, --table-size that of items.

sysbench.cmdline.options = {
  tables = {"Warehouses.", 4},
  table_size = {"Items, and lines of stock of each warehouse.", 100000},
}

local DISTRICTS = 10
local CUSTOMERS = 300
local TEXT = string.rep("x", 40)

local TABLES = {
  "item (i INT PRIMARY KEY, price DECIMAL(9,2), data VARCHAR(50))",
  "warehouse (w INT PRIMARY KEY, ytd DECIMAL(12,2))",
  "district (w INT, d INT, next_o INT, ytd DECIMAL(12,2), PRIMARY KEY (w, d))",
  "customer (w INT, d INT, c INT, last VARCHAR(20), balance DECIMAL(12,2), data VARCHAR(250), PRIMARY KEY (w, d, c), " ..
    "KEY (w, d, last))",
  "history (h BIGINT AUTO_INCREMENT PRIMARY KEY, w INT, d INT, c INT, amount DECIMAL(9,2), at DATETIME)",
  "stock (w INT, i INT, quantity INT, ytd INT, data VARCHAR(50), PRIMARY KEY (w, i))",
  "orders (w INT, d INT, o INT, c INT, carrier INT, entered DATETIME, PRIMARY KEY (w, d, o), KEY (w, d, c, o))",
  "new_orders (w INT, d INT, o INT, PRIMARY KEY (w, d, o))",
  "order_line (w INT, d INT, o INT, n INT, i INT, quantity INT, amount DECIMAL(9,2), delivered DATETIME, " ..
    "PRIMARY KEY (w, d, o, n))",
}

function prepare()
  local con = sysbench.sql.driver():connect()
  con:query("CREATE DATABASE orders")
  con:query("USE orders")
  con:query("SET SESSION cte_max_recursion_depth = 100000000")
  for _, columns in ipairs(TABLES) do
    con:query("CREATE TABLE " .. columns)
  end
  local numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
  local items = numbers:format(sysbench.opt.table_size)
  con:query("INSERT INTO item " .. items .. "SELECT i, 1 + i % 100, '" .. TEXT .. "' FROM n")
  for w = 1, sysbench.opt.tables do
    con:query(("INSERT INTO warehouse VALUES (%d, 0)"):format(w))
    con:query(("INSERT INTO stock " .. items .. "SELECT %d, i, 10 + i %% 90, 0, '" .. TEXT .. "' FROM n"):format(w))
    for d = 1, DISTRICTS do
      con:query(("INSERT INTO district VALUES (%d, %d, 1, 0)"):format(w, d))
      con:query(("INSERT INTO customer " .. numbers:format(CUSTOMERS) ..
        "SELECT %d, %d, i, CONCAT('NAME', i %% 100), 0, REPEAT('c', 250) FROM n"):format(w, d))
    end
  end
  con:disconnect()
end

function thread_init()
  con = sysbench.sql.driver():connect()
  con:query("USE orders")
end

-- A deadlock or a timeout has thrown the transaction away, or a statement of it: it begins anew.
function sysbench.hooks.before_restart_event()
  con:query("ROLLBACK")
end

local function one(statement, ...)
  return con:query_row(statement:format(...))
end

local function run(statement, ...)
  con:query(statement:format(...))
end

local function place()
  return sysbench.rand.uniform(1, sysbench.opt.tables), sysbench.rand.uniform(1, DISTRICTS)
end

local function order()
  local w, d = place()
  local c, lines = sysbench.rand.uniform(1, CUSTOMERS), sysbench.rand.uniform(5, 15)
  -- In one order, so that two orders do not wait for each other.
  local items = {}
  for n = 1, lines do
    items[n] = sysbench.rand.uniform(1, sysbench.opt.table_size)
  end
  table.sort(items)
  local o = one("SELECT next_o FROM district WHERE w = %d AND d = %d FOR UPDATE", w, d)
  run("UPDATE district SET next_o = next_o + 1 WHERE w = %d AND d = %d", w, d)
  one("SELECT balance FROM customer WHERE w = %d AND d = %d AND c = %d", w, d, c)
  run("INSERT INTO orders VALUES (%d, %d, %d, %d, NULL, NOW())", w, d, o, c)
  run("INSERT INTO new_orders VALUES (%d, %d, %d)", w, d, o)
  for n, i in ipairs(items) do
    local price = one("SELECT price FROM item WHERE i = %d", i)
    local quantity = sysbench.rand.uniform(1, 10)
    one("SELECT quantity FROM stock WHERE w = %d AND i = %d FOR UPDATE", w, i)
    run("UPDATE stock SET quantity = IF(quantity > %d, quantity, quantity + 91) - %d, ytd = ytd + %d WHERE w = %d AND i = %d",
      quantity + 9, quantity, quantity, w, i)
    run("INSERT INTO order_line VALUES (%d, %d, %d, %d, %d, %d, %f, NULL)", w, d, o, n, i, quantity, price * quantity)
  end
end

local function payment()
  local w, d = place()
  local c, amount = sysbench.rand.uniform(1, CUSTOMERS), sysbench.rand.uniform(1, 5000)
  run("UPDATE warehouse SET ytd = ytd + %d WHERE w = %d", amount, w)
  run("UPDATE district SET ytd = ytd + %d WHERE w = %d AND d = %d", amount, w, d)
  con:query(("SELECT c, balance FROM customer WHERE w = %d AND d = %d AND last = 'NAME%d' ORDER BY c"):format(w, d, c % 100))
  run("UPDATE customer SET balance = balance - %d WHERE w = %d AND d = %d AND c = %d", amount, w, d, c)
  run("INSERT INTO history (w, d, c, amount, at) VALUES (%d, %d, %d, %d, NOW())", w, d, c, amount)
end

local function status()
  local w, d = place()
  local c = sysbench.rand.uniform(1, CUSTOMERS)
  one("SELECT balance FROM customer WHERE w = %d AND d = %d AND c = %d", w, d, c)
  local o = one("SELECT MAX(o) FROM orders WHERE w = %d AND d = %d AND c = %d", w, d, c)
  if o ~= nil then
    run("SELECT i, quantity, amount, delivered FROM order_line WHERE w = %d AND d = %d AND o = %d", w, d, o)
  end
end

local function delivery()
  local w = place()
  for d = 1, DISTRICTS do
    local o = one("SELECT MIN(o) FROM new_orders WHERE w = %d AND d = %d FOR UPDATE", w, d)
    if o ~= nil then
      run("DELETE FROM new_orders WHERE w = %d AND d = %d AND o = %d", w, d, o)
      -- What was read before may be older than this order.
      local c = one("SELECT c FROM orders WHERE w = %d AND d = %d AND o = %d FOR UPDATE", w, d, o)
      run("UPDATE orders SET carrier = 1 WHERE w = %d AND d = %d AND o = %d", w, d, o)
      run("UPDATE order_line SET delivered = NOW() WHERE w = %d AND d = %d AND o = %d", w, d, o)
      local sum = one("SELECT SUM(amount) FROM order_line WHERE w = %d AND d = %d AND o = %d FOR UPDATE", w, d, o)
      run("UPDATE customer SET balance = balance + %f WHERE w = %d AND d = %d AND c = %d", sum, w, d, c)
    end
  end
end

local function stock()
  local w, d = place()
  local o = one("SELECT next_o FROM district WHERE w = %d AND d = %d", w, d)
  one("SELECT COUNT(DISTINCT l.i) FROM order_line l JOIN stock s ON s.w = l.w AND s.i = l.i WHERE l.w = %d AND l.d = %d " ..
    "AND l.o BETWEEN %d AND %d AND s.quantity < 15", w, d, o - 20, o)
end

local KINDS = {
  {share = 45, name = "order", work = order},
  {share = 43, name = "payment", work = payment},
  {share = 4, name = "status", work = status},
  {share = 4, name = "delivery", work = delivery},
  {share = 4, name = "stock", work = stock},
}

local function draw()
  local number = sysbench.rand.uniform(1, 100)
  for _, kind in ipairs(KINDS) do
    number = number - kind.share
    if number <= 0 then
      return kind
    end
  end
end

-- What is to be done, and how often this thread has committed each kind. What begins anew is of the same kind, so that the shares
-- do not depend on which kind meets deadlocks.
local next_kind
local committed = {}

function event()
  next_kind = next_kind or draw()
  con:query("BEGIN")
  next_kind.work()
  con:query("COMMIT")
  committed[next_kind.name] = (committed[next_kind.name] or 0) + 1
  next_kind = nil
end

-- The bench reads this line of each thread.
function thread_done()
  local counts = {}
  for n, kind in ipairs(KINDS) do
    counts[n] = ("%d %s"):format(committed[kind.name] or 0, kind.name)
  end
  io.write("committed: " .. table.concat(counts, ", ") .. "\n")
  con:disconnect()
end
