-- The run file: one SQLite database for each run, of any command.
--
-- Times are milliseconds since the run's start on the monotonic clock (at_ms, started_ms, ended_ms);
-- run.started_unix_ms is the start on the wall clock. slice_id is the slice of a row, NULL outside
-- slices. Counters in metric_* are the server's cumulative values; readers take differences within a
-- slice. A column that a server version lacks is NULL. There are no passwords.
--
-- In a long run old rows are rolled up: intervals, errors and wait samples are summed and their
-- histograms merged; of metric rows the last of each bucket is kept. duration_ms and ticks are the
-- period that a row covers, so that readers treat all rows alike.

create table run (
    id integer primary key check (id = 1),
    name text not null,
    pgdyno_version text not null,
    command text not null,                -- as on the command line: run, drill
    started_unix_ms integer not null,
    spec_text text not null,              -- as the user wrote it; '' without a file
    spec_json text not null,              -- resolved, with all defaults
    server_json text not null default '{}',   -- version, kind, settings at the start, capabilities, …
    host_json text not null default '{}',     -- cores, memory, kernel, file systems, …
    engine_json text not null default '{}',   -- version, build profile, threads, …
    status text not null,                 -- running, done, failed, interrupted, broken
    status_detail text not null default '',
    result_json text not null default '{}',   -- JSON result of the command, read by show and report
    asked_json text not null default '[]',    -- words of the command line that, with the spec, repeat the run
    writer_json text not null default '{}',   -- recording process: pid, started_ticks, boot_id, …
    ended_ms integer
);

create table slice (
    id integer primary key,
    kind text not null,                   -- a SliceKind
    trial_id integer,                     -- of noise and trial slices
    pair integer,                         -- 1, 2, … within the trial
    side text,                            -- 'a' (baseline) or 'b' (changed)
    change_json text not null default '{}',   -- difference from the spec
    started_ms integer not null,          -- after the change was applied and the load had settled
    ended_ms integer,
    void text                             -- reason why it decides nothing; NULL: it counts
);

-- One row per interval (a second, or less at a slice's edge), client group and script.
create table interval (
    at_ms integer not null,               -- start of the interval
    duration_ms real not null,
    slice_id integer,
    client_group text not null,
    script text not null,
    clients integer not null,             -- of the group, at the end of the interval
    intended integer not null,
    sent integer not null,
    done integer not null,
    failed integer not null,
    skipped integer not null,
    cancelled integer not null,
    backlog integer not null,             -- started or waiting at the end of the interval
    retried integer not null,
    expected_errors integer not null,     -- counted in done
    late integer not null,                -- counted in done: response time above the group's limit
    response_hist blob not null,          -- intended → done; HDR V2 deflated, nanoseconds
    wait_hist blob not null,              -- intended → sent; the sum of the next three
    client_lag_hist blob not null,        -- part of wait that is neither of the next two
    pool_wait_hist blob not null,         -- part of wait: in the queue for a pooled connection
    connect_hist blob not null,           -- part of wait: while a connection was established
    service_hist blob not null            -- sent → done
);
create index interval_at on interval (at_ms);

-- One row per interval and client group. The histograms but the last are phases of establishing a
-- connection.
create table group_interval (
    at_ms integer not null,
    duration_ms real not null,
    slice_id integer,
    client_group text not null,
    clients integer not null,             -- at the end of the interval
    connections integer not null,         -- open at the end of the interval
    connects integer not null,            -- established, the first time or again
    reconnects integer not null,          -- counted in connects: replacements of lost connections
    connect_failures integer not null,
    unanswered integer not null default 0,          -- clients without an answer for 2 s or longer, at the end of the interval
    unanswered_us_max integer not null default 0,   -- the longest time of these
    tcp_hist blob not null,               -- connection of the socket, TCP or Unix
    tls_hist blob not null,               -- TLS handshake, if TLS is used
    auth_hist blob not null,              -- authentication
    ready_hist blob not null,             -- from authentication until the server was ready for statements
    total_hist blob not null,             -- all phases
    silence_hist blob not null default x''   -- of connections closed from the other side without a
                                          -- word: from the last byte in either direction to that
);
create index group_interval_at on group_interval (at_ms);

create table statement_interval (
    at_ms integer not null,
    duration_ms real not null,
    slice_id integer,
    client_group text not null,
    script text not null,
    position integer not null,            -- in the script, from 0
    statement text not null,              -- text, shortened
    done integer not null,
    failed integer not null,
    service_hist blob not null,
    untouched integer not null default 0  -- done, but UPDATE 0, DELETE 0 or MERGE 0: no row to change
);

-- Of client groups that send requests by HTTP: one row per interval and group.
create table http_interval (
    at_ms integer not null,
    duration_ms real not null,
    slice_id integer,
    client_group text not null,
    requests integer not null,            -- sent
    reused integer not null,              -- of these over a connection that had served another
    redirected integer not null,          -- of these because a redirect led to them
    status_1xx integer not null,          -- responses by class of their status
    status_2xx integer not null,
    status_3xx integer not null,
    status_4xx integer not null,
    status_5xx integer not null,
    closed_by_server integer not null,    -- connections, between requests or after a response
    sent_bytes integer not null,
    received_bytes integer not null       -- without those of TLS
);

-- The same per request of a script, as in statement_interval.
create table request_interval (
    at_ms integer not null,
    duration_ms real not null,
    slice_id integer,
    client_group text not null,
    script text not null,
    position integer not null,
    statement text not null,
    first_byte_hist blob not null         -- sent → first byte of the response, of those done
);

create table error (    at_ms integer not null,
    slice_id integer,
    client_group text not null,
    script text not null,
    file text not null default '',         -- '' outside scripts, as is script; line is then NULL
    line integer,                         -- in the file, from 1
    statement text not null,              -- text, shortened, or the meta-command
    client integer,                       -- number of the first client with the error, within its group
    sqlstate text not null,               -- or a code of pgdyno: 'pool-timeout', 'connection-lost', …
    expected integer not null,            -- 1: expected by the script
    retried integer not null,             -- 1: the transaction was retried
    count integer not null,
    message text not null,                -- of the first error in the interval, as are all columns below
    detail text not null default '',       -- DETAIL, HINT and CONTEXT of the server; '' if absent
    hint text not null default '',
    context text not null default '',
    excerpt text not null default '',      -- line of the statement at the error position, with a mark
    advice text not null default ''        -- of pgdyno, if the protocol is the reason
);

-- Resources used by the load engine, per interval and thread.
create table metric_generator (
    at_ms integer not null,
    duration_ms real not null,
    slice_id integer,
    thread integer not null,
    cpu_user_us integer not null,         -- within the interval
    cpu_system_us integer not null,
    run_queue_delay_us integer not null,  -- runnable without a CPU, within the interval
    passes integer not null,              -- of the event loop, within the interval
    loop_stall_us_max integer not null,   -- longest pass of the event loop
    send_late_hist blob not null          -- due, with an open connection → first byte sent
);

-- States and wait events of all backends, sampled at 10 Hz or faster and summed per second.
create table wait_sample (
    at_ms integer not null,
    slice_id integer,
    ticks integer not null,               -- number of samplings in this row
    backend_type text not null,
    state text not null,                  -- '' if none
    wait_event_type text not null,        -- '' when not waiting
    wait_event text not null,
    statement_id integer,                 -- of the running statement; NULL if none
    count integer not null                -- of backends, over all ticks: average = count / ticks
);
create index wait_sample_at on wait_sample (at_ms);

-- Queues for heavyweight locks, looked at up to five times a second while clients wait, summed per
-- second. A queue is a backend that does not wait for a lock, with all that wait for it.
create table lock_queue (
    at_ms integer not null,
    slice_id integer,
    looks integer not null,               -- number of looks in this row
    seen integer not null,                -- of these, looks that saw the queue
    lock_type text not null,              -- that the first in line wait for, as in pg_locks
    mode text not null,                   -- in which they want the lock, or the row
    relation text,                        -- schema.name
    blocker_state text not null,          -- as in pg_stat_activity, or 'waiting', 'deadlock', 'prepared'
    blocker_type text not null,           -- its backend_type; '' if not known
    blocker_mode text,                    -- in which it holds what the first in line wait for
    blocker_pid integer,                  -- NULL where different backends were seen
    blocker_statement_id integer,
    link_id integer,                      -- of lock_link, the last one; NULL: all wait for the blocker
    waiting_statement_id integer,         -- the most frequent one of those behind the last link
    waiting_mode text,                    -- the strongest that these want; NULL without a link
    waiting integer not null,             -- all backends in the queue, over all looks
    first integer not null,               -- of these, those that wait for the blocker itself
    places integer not null,              -- different rows, or locks, that the first wait for
    behind_request integer not null,      -- of all, those in whose way is no lock held, only a request
    blocker_transaction_ms real not null, -- age of its transaction, summed over looks
    blocker_state_ms real not null,       -- time in its state, summed over looks
    wait_ms_max real not null,
    blocker_transaction_ms_max real not null
);
-- Links of a queue's chain: backends that wait for the next link, or for the blocker, and that others
-- wait for, who do not wait for the blocker directly.
create table lock_link (
    id integer primary key,
    ahead_id integer,                     -- the link that it waits for; NULL: the blocker
    statement_id integer,
    backend_type text not null,
    lock_type text not null,              -- that it waits for, as in pg_locks
    mode text not null,                   -- in which it wants it
    relation text,
    held_type text,                       -- the lock that others want of it; NULL: what it wants itself
    held_mode text,
    held_relation text
);
create index lock_queue_at on lock_queue (at_ms);
create table statement (id integer primary key, text text not null unique);

-- Identity of the server that answers: at the edges of slices, and after each change of it.
create table metric_server (
    at_ms integer not null, slice_id integer,
    system_identifier text, started_unix_ms integer,
    checkpointer_unix_ms integer,         -- start of the checkpointer; a new one is started after a crash
    in_recovery integer                   -- 1 for a standby
);
create table metric_database (
    at_ms integer not null, slice_id integer,
    numbackends integer, xact_commit integer, xact_rollback integer, blks_read integer,
    blks_hit integer, tup_returned integer, tup_fetched integer, tup_inserted integer,
    tup_updated integer, tup_deleted integer, conflicts integer, temp_files integer,
    temp_bytes integer, deadlocks integer, blk_read_time_ms real, blk_write_time_ms real,
    session_time_ms real, active_time_ms real, idle_in_transaction_time_ms real,
    sessions integer,                     -- connections made; of these ended otherwise than by the client:
    sessions_abandoned integer, sessions_fatal integer, sessions_killed integer
);
-- The load of others, of pgdyno check: all databases together.
create table metric_load (
    at_ms integer not null, slice_id integer,
    transactions integer, rolled_back integer,
    sessions integer,                     -- client sessions of others, in any state
    hidden_sessions integer,              -- those that this role may not see
    own_transactions integer              -- those of probes, another pgdyno's included, counted in transactions
);
-- Statements by pg_stat_statements: differences between two readings, of those executed. In a check,
-- whose statements are those of others, over the slice. A column that this version of the extension
-- lacks is NULL, as are times that the server's settings leave out.
create table statement_count (
    at_ms integer not null,               -- of the first of two readings
    slice_id integer,
    statement_id integer not null,        -- of their shape: statements that differ in values alone
    calls integer not null, exec_ms real not null, rows integer not null,
    wal_bytes integer not null, blocks_read integer not null, temp_blocks integer not null,
    duration_ms real,                     -- between the two readings
    plan_ms real,                         -- with pg_stat_statements.track_planning
    wal_records integer, wal_fpi integer,
    wal_buffers_full integer,             -- from version 18
    blocks_dirtied integer, blocks_written integer, local_blocks_dirtied integer,
    read_ms real, write_ms real,          -- with track_io_timing
    jit_ms real                           -- part of exec_ms and plan_ms; from version 15
);
create index statement_count_at on statement_count (at_ms);
-- Plans of the load's statements at the end of a slice, as a session like the load's has them.
create table statement_plan (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null,
    position integer not null,            -- of the statement in the script, from 0
    is_generic integer,                   -- 1: a prepared statement has had a plan for any values
    is_analyzed integer not null,         -- 1: executed, and undone
    plan text,                            -- as EXPLAIN (FORMAT JSON) gives it; NULL: none
    lack text not null default ''         -- reason why there is none, or it was not executed
);
-- Forms of their plans when the load began and when it had ended, for the same values.
create table plan_over_time (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    first text not null, last text not null,
    is_changed integer not null           -- 1: they differ
);
-- Times of these statements, executed and undone in turn without and with a change.
create table statement_trial (
    at_ms integer not null, slice_id integer,
    change text not null,                 -- JSON of a change
    client_group text not null, script text not null, position integer not null,
    runs integer not null,                -- executions on each side
    ms real not null, changed_ms real not null,
    log_error real not null,              -- half the 95 % interval of the log ratio of the two
    is_replanned integer not null         -- 1: another plan with the change
);
-- Costs that the planner expects of these statements, without and with indexes that are not there
-- (HypoPG).
create table supposed_index (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    change text not null,                 -- JSON of the change that would create them
    cost real not null, supposed_cost real not null
);
-- Times of these statements while the server counted their functions (track_functions), the functions
-- that they called, and the triggers of the tables that they write, without those of constraints.
create table counted_statement (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    ms real not null
);
create table called_function (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    function text not null,               -- schema.name(types)
    is_trigger integer not null,          -- 1: it returns a trigger
    calls real not null, ms real not null,
    self_ms real not null,                -- without the functions that it called
    own_ms real                           -- at most, without the statements that it executed either
);
-- Statements that functions execute which these statements call.
create table function_statement (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    statement text not null,
    executions real not null, ms real not null
);
create table table_trigger (
    at_ms integer not null, slice_id integer,
    relation text not null, trigger_name text not null, function text not null
);
-- Indexes that the plans of statements cannot use, where they read the whole table.
create table unusable_index (
    at_ms integer not null, slice_id integer,
    client_group text not null, script text not null, position integer not null,
    relation text not null, index_name text not null,
    compared text not null,               -- the column, or the expression, of the condition
    reason text not null,                 -- a WhyUnusable
    detail text not null, make text not null
);
-- Tables and indexes that may cost more than they need: indexes that statements write and no scan
-- reads, indexes with a list of pending entries, tables with many more pages than their rows need.
create table suspect (
    at_ms integer not null, slice_id integer,
    relation text not null, index_name text not null, size_bytes integer not null,
    suspicion text not null,              -- a Suspicion
    make text not null                    -- SQL that is tried against it
);
-- Partitions that the plans of statements read.
create table table_partition (
    at_ms integer not null, slice_id integer,
    relation text not null, root text not null,
    key text not null,                    -- as SQL has it: RANGE (at)
    partitions integer not null           -- of the root
);
-- The planner's statistics of tables that the plans of statements read.
create table table_statistics (
    at_ms integer not null, slice_id integer,
    relation text not null,
    has_statistics integer not null,      -- 1: ANALYZE has made some
    repairs text not null                 -- statements against what keeps it from making good ones
);
-- Settings of a session like the load's that are not at their built-in value and can matter for
-- speed, those of the whole server included.
create table unusual_setting (
    at_ms integer not null, slice_id integer,
    name text not null, value text not null,
    reset text not null,                  -- the built-in value
    may_set integer not null,             -- 1: a trial in a session shows what it costs
    source text not null default '',      -- as in pg_settings: configuration file, database, user, …
    needs_restart integer not null default 0,
    relied_on integer not null default 0  -- 1: replication, archiving or results depend on it
);
create table metric_checkpointer (
    at_ms integer not null, slice_id integer,
    num_timed integer, num_requested integer, num_done integer, write_time_ms real,
    sync_time_ms real, buffers_written integer
);
create table metric_bgwriter (
    at_ms integer not null, slice_id integer,
    buffers_clean integer, maxwritten_clean integer, buffers_alloc integer,
    buffers_backend integer, buffers_backend_fsync integer   -- the last two until version 16
);
create table metric_wal (
    at_ms integer not null, slice_id integer,
    wal_records integer, wal_fpi integer,
    wal_fpi_bytes integer,                -- from version 19
    wal_bytes integer, wal_buffers_full integer,
    wal_write integer, wal_sync integer, wal_write_time_ms real, wal_sync_time_ms real,
    insert_lsn_bytes integer, flush_lsn_bytes integer,
    redo_lsn_bytes integer, checkpoint_unix_ms integer      -- of the last completed checkpoint
);
create table metric_io (
    at_ms integer not null, slice_id integer,
    backend_type text not null, object text not null, context text not null,
    reads integer, read_bytes integer, read_time_ms real, writes integer, write_bytes integer,
    write_time_ms real, writebacks integer, writeback_time_ms real, extends integer,
    extend_bytes integer, extend_time_ms real, hits integer, evictions integer, reuses integer,
    fsyncs integer, fsync_time_ms real
);
create table metric_table (
    at_ms integer not null, slice_id integer,
    relation text not null,               -- schema.name
    n_tup_ins integer, n_tup_upd integer, n_tup_del integer, n_tup_hot_upd integer,
    n_tup_newpage_upd integer,            -- rows put on another page; NULL before version 16
    n_live_tup integer, n_dead_tup integer, vacuum_count integer, autovacuum_count integer,
    analyze_count integer, autoanalyze_count integer, seq_scan integer,
    seq_tup_read integer, idx_scan integer,
    heap_blks_read integer, heap_blks_hit integer, idx_blks_read integer, idx_blks_hit integer,
    size_bytes integer,                   -- with its indexes and its TOAST table
    xid_age integer,
    toast_xid_age integer,                -- of its TOAST table; NULL: it has none
    fillfactor integer                    -- NULL: the default
);
create table metric_index (               -- at the edges of slices
    at_ms integer not null, slice_id integer,
    relation text not null,               -- schema.name of the table
    index_name text not null,
    method text, idx_scan integer,
    enforces integer,                     -- 1: for a constraint or a replica identity
    has_expression integer,               -- 1: of expressions, or partial
    table_columns text                    -- names, separated by commas
);
create table metric_replication (
    at_ms integer not null, slice_id integer,
    application_name text not null, state text, sync_state text, write_lag_ms real,
    flush_lag_ms real, replay_lag_ms real, lag_bytes integer
);
create table metric_vacuum (
    at_ms integer not null, slice_id integer,
    pid integer not null,
    relation text not null,               -- schema.name, of its TOAST table with " (TOAST)"
    phase text not null, automatic integer, to_prevent_wraparound integer,
    heap_blks_total integer, heap_blks_scanned integer, heap_blks_vacuumed integer,
    index_vacuum_count integer,
    dead_full real,                       -- used part of its memory for dead rows
    indexes_total integer, indexes_processed integer,   -- in this pass; from version 17
    delay_ms real                         -- time slept by its cost delay; from version 18
);
create table metric_age (
    at_ms integer not null, slice_id integer,
    database text not null, xid_age integer, mxid_age integer, xmin_age integer,
    xmin_holder text,                     -- 'backend', 'slot', 'prepared', 'standby' or NULL
    xmin_holder_name text,                -- its pid, slot, gid or application
    xmin_held_ms real,                    -- age of its transaction; NULL for slots and standbys
    xmin_holder_about text                -- its state and application, or its owner
);
create table metric_slot (
    at_ms integer not null, slice_id integer,
    slot_name text not null, slot_type text, active integer,
    wal_status text,                      -- reserved, extended, unreserved or lost
    safe_wal_bytes integer,               -- until it may be lost; NULL without max_slot_wal_keep_size
    restart_lsn_bytes integer,            -- oldest WAL that it needs, as metric_wal.insert_lsn_bytes
    xmin_age integer, catalog_xmin_age integer
);
create table metric_catalogue (           -- those of pg_catalog with most dead rows
    at_ms integer not null, slice_id integer,
    relation text not null,               -- schema.name
    n_tup_upd integer, n_tup_del integer, n_live_tup integer, n_dead_tup integer,
    vacuum_count integer, autovacuum_count integer
);
create table metric_archiver (
    at_ms integer not null, slice_id integer,
    archived_count integer, failed_count integer,
    last_archived_wal text, last_failed_wal text,   -- names of segments
    last_archived_unix_ms integer, last_failed_unix_ms integer
);
-- The next tables, up to metric_multixact, are read at the edges of slices and every tenth second.
create table metric_connection (
    at_ms integer not null, slice_id integer,
    used integer, ours integer, others_idle integer,
    usable integer                        -- max_connections less reserved ones
);
create table metric_prepared (
    at_ms integer not null, slice_id integer,
    count integer, xid_age integer, gid text, held_ms real    -- of the oldest, NULL if there is none
);
create table metric_sequence (
    at_ms integer not null, slice_id integer,
    sequence text not null,               -- schema.name; only those more than half used
    last_value integer, last_possible integer
);
create table metric_autovacuum (
    at_ms integer not null, slice_id integer,
    relation text not null,               -- schema.name
    reltuples real, n_ins_since_vacuum integer,
    unfrozen real,                        -- share of its pages, from version 18
    mxid_age integer,
    toast_mxid_age integer,               -- of its TOAST table; NULL: it has none
    vacuumed_ms real,                     -- since the last vacuum; NULL if there was none
    options text                          -- storage parameters, name=value; NULL if none is set
);
-- Locks held on tables that exclude autovacuum; read only while a table has dead rows.
create table metric_table_lock (
    at_ms integer not null, slice_id integer,
    relation text not null,               -- schema.name
    mode text not null,
    backend_type text not null,           -- '' if not known
    statement_id integer,                 -- that the holders execute; NULL if not visible
    holders integer
);
create table metric_multixact (           -- with these
    at_ms integer not null, slice_id integer,
    member_files integer,                 -- files of members, each with room for 52,352; NULL from 19
    members_max integer                   -- their room; from version 19 on, the members there are
);
create table metric_activity (
    at_ms integer not null, slice_id integer,
    state text not null,                  -- all six states, with 0 if unused; client backends only
    count integer not null, xact_age_ms_max real
);
create table metric_origin (
    at_ms integer not null, slice_id integer,
    role text not null, application text not null,
    address text not null,                -- of the client; '' for a Unix socket
    active integer not null, idle integer not null,
    in_transaction integer not null,      -- idle in transaction
    in_aborted integer not null,          -- idle in transaction (aborted)
    fastpath integer not null, disabled integer not null,
    hidden integer not null,              -- in a state that this role may not see
    unused integer not null,              -- idle, and nothing done since they connected
    -- Numbers of sessions by age: less than 1 s, 10 s, 1 min, 10 min, 1 h, and longer.
    idle_ages text not null,              -- of idle sessions, since they became idle
    pause_ages text not null,             -- of those idle in transaction, since they became so
    transaction_ages text not null,       -- of those in a transaction, since it began
    connection_ages text not null         -- of all, since they connected
);
create table metric_foreign (
    at_ms integer not null, slice_id integer,
    database text not null,
    at_work integer not null,             -- active sessions of others
    transactions integer, rows_written integer, active_time_ms real   -- NULL for the database under load
);
create table metric_lock (
    at_ms integer not null, slice_id integer,
    waiting integer not null,             -- backends waiting for a heavyweight lock
    behind_one_max integer not null,      -- maximum that wait, directly or not, for one backend
    wait_ms_max real, lock_type text, relation text, blocker_statement text
);
create table metric_host (
    at_ms integer not null, slice_id integer,
    cpu_user_ms real, cpu_system_ms real, cpu_iowait_ms real, cpu_steal_ms real, cpu_idle_ms real,
    load1 real, memory_total_bytes integer, memory_available_bytes integer, dirty_bytes integer,
    writeback_bytes integer, pressure_cpu_some_us integer, pressure_io_some_us integer,
    pressure_io_full_us integer, pressure_memory_some_us integer, context_switches integer,
    procs_running integer, procs_blocked integer
);
create table metric_disk (
    at_ms integer not null, slice_id integer,
    device text not null,
    holds text not null,                  -- 'data', 'wal', 'data,wal' or ''
    reads integer, read_bytes integer, read_ms integer, writes integer, write_bytes integer,
    write_ms integer, flushes integer, flush_ms integer, in_flight integer, busy_ms integer,
    queue_ms integer
);
create table metric_space (
    at_ms integer not null, slice_id integer,
    holds text not null,                  -- 'data', 'wal' or 'data,wal'
    filesystem text not null,             -- type: 'ext4', 'tmpfs'; '' if unknown
    size_bytes integer, free_bytes integer,   -- free for the server, which is not root
    wal_dir_bytes integer,                -- size of the WAL; NULL if it is elsewhere or inaccessible
    log_bytes integer                     -- size of the server's log; NULL if it is elsewhere or unknown
);
create table metric_process (
    at_ms integer not null, slice_id integer,
    role text not null,                   -- backend_type of the server's processes; 'client backend
                                          -- of others', with work of another load; 'pgdyno'
    count integer not null, cpu_user_ms real, cpu_system_ms real,   -- cumulative, sum of the role
    write_bytes integer, rss_bytes integer,
    jit_share real,                       -- part of the role's processes that have PostgreSQL's JIT
                                          -- compiler loaded, of a few; at the edges of slices
    run_queue_delay_ms real               -- cumulative: ready to run without a core, by the kernel
);
create table metric_pooler (              -- a pooler that pgdyno started, by its own view
    at_ms integer not null, slice_id integer,
    pool text not null,                   -- database (PgBouncer), or 'processes', 'servers'
    clients integer, clients_waiting integer,   -- connected; of these, waiting for a server
    servers_active integer, servers_idle integer,   -- connections to the server
    wait_ms_max real,                     -- of the first client in the queue, until now
    wait_ms real,                         -- cumulative, of all clients
    listen_queue integer                  -- connections that it has not accepted (Unix socket)
);
create table metric_front (               -- a front end that pgdyno started, by its own probe
    at_ms integer not null, slice_id integer,
    pool_max integer, pool_active integer, pool_idle integer,   -- connections to the server
    pool_waiting integer,                 -- requests that wait for one
    pool_created integer, pool_borrowed integer, pool_refused integer,  -- cumulative
    pool_wait_ms real,                    -- cumulative, of all that borrowed
    threads_max integer, threads_busy integer,  -- of the connector
    connector_queue integer,              -- requests that wait for a thread
    connections_open integer,             -- of clients
    connections_max integer,              -- that it accepts
    accept_queue integer                  -- further ones, which wait for that
);
create table metric_front_page (          -- cumulative, by page
    at_ms integer not null, slice_id integer,
    page text not null,                   -- path
    requests integer, failed integer, statements integer,
    batched_rows integer,                 -- of statements that are batches
    kept integer,                         -- connections borrowed and never returned
    took_ms real, pool_ms real, database_ms real   -- within the application; of this, the wait for
                                          -- a connection, and from statements sent to rows read
);
create table metric_jvm (                 -- the virtual machine of that front end
    at_ms integer not null, slice_id integer,
    heap_bytes integer, heap_bytes_max integer,
    collections integer, collection_ms real, compile_ms real,   -- cumulative
    cpu_ms real,                          -- cumulative, user and system, of the process
    threads_live integer
);
create table metric_program (
    at_ms integer not null, slice_id integer,
    whose text not null,                  -- 'server' (programs started by it), 'ours' (pgdyno and
                                          -- its processes), 'kernel' or 'other'; or 'machine'
    program text not null,                -- name of the command; '(others)' for those with too
                                          -- little; of 'machine', '(busy)' and '(all)': the time
                                          -- of its cores at work, and all their time
    count integer not null,               -- of processes with that name
    cpu_ms real                           -- cumulative, user and system
);
create table metric_control_group (
    at_ms integer not null, slice_id integer,
    control_group text not null,          -- directory of the server's group, or of one above it
    nr_periods integer, nr_throttled integer,   -- cumulative; groups without a quota have no row
    throttled_us integer                  -- cumulative, over all CPUs
);

create table event (
    at_ms integer not null,
    duration_ms real,
    slice_id integer,
    kind text not null,       -- setting, checkpoint, vacuum, sql, restart, fault, warning, step, probe,
                              -- own: an intervention of pgdyno; pooler, pooler-log, front, front-log,
                              -- manager-log, consistency (of the tables after the load); of a soak: gap, level (a change that was named)
    label text not null,      -- short, for a chart's axis
    detail_json text not null default '{}',
    drill_id integer          -- drill within the run, on a server of its own
);
-- What a check looked at, once and without load; rules judge these rows.
create table look (
    at_ms integer not null,
    slice_id integer,
    look text not null,
    duration_ms real not null,
    rows_json text not null,              -- a list of objects; null: it could not be looked at
    why text not null,                    -- reason why rows are missing, some or all; '' if none are
    allow text not null                   -- what would allow it; '' if nothing would
);
create table finding (
    id integer primary key,
    step integer not null,                -- 0: the baseline; n: after n kept steps
    finding text not null,                -- the signature's id, 'commit-flush'
    status text not null,                 -- found, cleared, skipped, helped, proved
    rank integer,                         -- 1: the limit; NULL unless found
    sentence text not null,
    confidence real,                      -- 0 to 1
    evidence_json text not null default '[]',
    false_positives text not null default '',
    causes_json text not null default '[]',     -- findings of which this is a symptom
    remedies_json text not null default '[]',   -- with predicted_ratio, predicted_interval
    advice text not null default '',            -- measures that pgdyno cannot take itself
    severity text,                        -- will fail, limit, costs, minor; NULL unless found
    share real,                           -- of the mean response time; NULL unless found, or if it needs no load
    parts_json text not null default '[]',      -- parts of the latency budget that it explains, or that were cleared
    commands_json text not null default '[]',   -- SQL or shell commands that remedy it
    prove_json text not null default '[]'       -- commands that measure its proposals, in a check
);
create table trial (
    id integer primary key,
    kind text not null,                   -- a TrialKind
    step integer not null default 0,
    finding text,
    remedy text,
    title text not null,                  -- 'pool 2 → 16'
    change_json text not null default '{}',
    set_by_json text not null default '{}',   -- setting → sessions, reload or restart
    durability_class text,
    predicted_ratio real,
    predicted_ratio_lo real, predicted_ratio_hi real,   -- NULL: the model states no interval
    predicted_response_ratio real,        -- of the mean, if the change is to shorten that
    specific integer,                     -- 1: the remedy acts on nothing but the finding's cause
    pairs integer,
    throughput_ratio real, throughput_ratio_lo real, throughput_ratio_hi real,
    latency_p99_ratio real, latency_p99_ratio_lo real, latency_p99_ratio_hi real,
    baseline_tps real, changed_tps real,
    compared text,                        -- throughput or latency_p99: the subject of the verdict
    verdict text,                         -- better, worse, no difference, inconclusive
    pairs_needed integer,
    decision text,                        -- a TrialDecision
    proof text,                           -- proved, helped; NULL: it says nothing about the finding
    proof_why text,
    sentence text not null default ''
);
-- A drill: a fault, repeated, and the verification of the server after each. Of a drill in the run of
-- another command, load and samples are not recorded.
create table drill (
    id integer primary key,
    fault text not null,                  -- 'kill'
    title text not null,                  -- fault and server
    seed integer not null,
    sham integer not null,                -- 1: all steps except the fault
    options_json text not null default '{}',
    settings_json text not null default '{}',   -- active settings that decide what may be lost
    bound_ms real,                        -- documented bound of loss; NULL: none
    bound text not null
);
create table cut (
    drill_id integer not null,
    number integer not null,
    at_ms integer not null,               -- time of the fault
    load_ms real not null,                -- time of the fault since the start of its load
    variant text not null default '',
    seed integer not null,
    outcome text not null,                -- clean, lost, refused, corrupt, no-fault
    seen_by text not null default '',     -- check that decided the outcome
    server_said text not null default '',
    recovery_s real,                      -- NULL: the server did not start
    ledger_json text not null default 'null',   -- acked, lost, lost_ms, ghost, unknown, holes, …
    outage_json text not null default 'null',   -- of a failover: no_commit_ms and its parts
    proof_json text not null,             -- happened, sentence, facts
    checks_json text not null default '[]',
    facts_json text not null default '{}',
    primary key (drill_id, number)
);
