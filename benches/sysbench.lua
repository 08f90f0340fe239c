-- pgbench's workloads on pgbench's tables for sysbench, as prepared statements.

sysbench.cmdline.options = {
   workload = {"select-only, simple-update or tpcb-like", "select-only"},
   scale = {"number of branches", 1},
}

local INT = sysbench.sql.type.INT

-- Text, and the parameters in its order. A statement without parameters stands as text alone.
local SELECT = {"select abalance from pgbench_accounts where aid = ?", "aid"}
local ACCOUNT = {"update pgbench_accounts set abalance = abalance + ? where aid = ?", "delta", "aid"}
local TELLER = {"update pgbench_tellers set tbalance = tbalance + ? where tid = ?", "delta", "tid"}
local BRANCH = {"update pgbench_branches set bbalance = bbalance + ? where bid = ?", "delta", "bid"}
local HISTORY = {
   "insert into pgbench_history (tid, bid, aid, delta, mtime) values (?, ?, ?, ?, current_timestamp)",
   "tid", "bid", "aid", "delta",
}
local WORKLOADS = {
   ["select-only"] = {SELECT},
   ["simple-update"] = {{"begin"}, ACCOUNT, SELECT, HISTORY, {"end"}},
   ["tpcb-like"] = {{"begin"}, ACCOUNT, SELECT, TELLER, BRANCH, HISTORY, {"end"}},
}

local function prepared(definition)
   local statement = {handle = con:prepare(definition[1]), names = {}, places = {}}
   for number = 2, #definition do
      statement.names[number - 1] = definition[number]
      statement.places[number - 1] = statement.handle:bind_create(INT)
   end
   if #statement.places > 0 then
      statement.handle:bind_param(unpack(statement.places))
   end
   return statement
end

function thread_init()
   con = sysbench.sql.driver():connect()
   statements = {}
   for number, definition in ipairs(WORKLOADS[sysbench.opt.workload]) do
      statements[number] = prepared(definition)
   end
   values = {}
end

function event()
   local scale = sysbench.opt.scale
   values.aid = sysbench.rand.uniform(1, 100000 * scale)
   values.tid = sysbench.rand.uniform(1, 10 * scale)
   values.bid = sysbench.rand.uniform(1, scale)
   values.delta = sysbench.rand.uniform(0, 10000) - 5000
   for _, statement in ipairs(statements) do
      for place, name in ipairs(statement.names) do
         statement.places[place]:set(values[name])
      end
      statement.handle:execute()
   end
end

function thread_done()
   con:disconnect()
end
