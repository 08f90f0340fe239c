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
    command text not null,                -- 'run', 'compare', 'investigate' or 'drill'
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
    kind text not null,                   -- run, baseline, noise, trial, check
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

-- One row per interval and client group. The histograms are phases of establishing a connection.
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
    tcp_hist blob not null,               -- connection of the socket, TCP or Unix
    tls_hist blob not null,               -- TLS handshake, if TLS is used
    auth_hist blob not null,              -- authentication
    ready_hist blob not null,             -- from authentication until the server was ready for statements
    total_hist blob not null              -- all phases
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
    service_hist blob not null
);

create table error (
    at_ms integer not null,
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
    session_time_ms real, active_time_ms real, idle_in_transaction_time_ms real, sessions integer
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
    wal_records integer, wal_fpi integer, wal_bytes integer, wal_buffers_full integer,
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
    n_live_tup integer, n_dead_tup integer, vacuum_count integer, autovacuum_count integer,
    analyze_count integer, autoanalyze_count integer, seq_scan integer, idx_scan integer,
    heap_blks_read integer, heap_blks_hit integer, idx_blks_read integer, idx_blks_hit integer,
    size_bytes integer, xid_age integer
);
create table metric_replication (
    at_ms integer not null, slice_id integer,
    application_name text not null, state text, sync_state text, write_lag_ms real,
    flush_lag_ms real, replay_lag_ms real, lag_bytes integer
);
create table metric_vacuum (
    at_ms integer not null, slice_id integer,
    pid integer not null, relation text not null, phase text not null, automatic integer,
    to_prevent_wraparound integer,
    heap_blks_total integer, heap_blks_scanned integer, heap_blks_vacuumed integer,
    index_vacuum_count integer
);
create table metric_age (
    at_ms integer not null, slice_id integer,
    database text not null, xid_age integer, mxid_age integer, xmin_age integer,
    xmin_holder text                      -- 'backend', 'slot', 'prepared', 'standby' or NULL
);
create table metric_activity (
    at_ms integer not null, slice_id integer,
    state text not null,                  -- all six states, with 0 if unused; client backends only
    count integer not null, xact_age_ms_max real
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
    wal_dir_bytes integer                 -- size of the WAL; NULL if it is elsewhere or inaccessible
);
create table metric_process (
    at_ms integer not null, slice_id integer,
    role text not null,                   -- backend_type of the server's processes, or 'pgdyno'
    count integer not null, cpu_user_ms real, cpu_system_ms real,   -- cumulative, sum of the role
    write_bytes integer, rss_bytes integer
);
create table metric_program (
    at_ms integer not null, slice_id integer,
    whose text not null,                  -- 'server' (programs started by it), 'ours' (pgdyno and
                                          -- its processes), 'kernel' or 'other'
    program text not null,                -- name of the command
    count integer not null,               -- of processes with that name
    cpu_ms real                           -- cumulative, user and system
);

create table event (
    at_ms integer not null,
    duration_ms real,
    slice_id integer,
    kind text not null,       -- setting, checkpoint, vacuum, sql, restart, fault, warning, step, probe
    label text not null,      -- short, for a chart's axis
    detail_json text not null default '{}',
    drill_id integer          -- drill within the run, on a server of its own
);
create table finding (
    id integer primary key,
    step integer not null,                -- 0: the baseline; n: after n kept steps
    finding text not null,                -- the signature's id, 'commit-flush'
    status text not null,                 -- found, cleared, skipped, proved, refuted
    rank integer,                         -- 1: the limit; NULL unless found
    sentence text not null,
    confidence real,                      -- 0 to 1
    evidence_json text not null default '[]',
    false_positives text not null default '',
    causes_json text not null default '[]',     -- findings of which this is a symptom
    remedies_json text not null default '[]'    -- with predicted_ratio
);
create table trial (
    id integer primary key,
    kind text not null,                   -- noise, compare, remedy, recheck
    step integer not null default 0,
    finding text,
    remedy text,
    title text not null,                  -- 'pool 2 → 16'
    change_json text not null default '{}',
    set_by_json text not null default '{}',   -- setting → sessions, reload or restart
    durability_class text,
    predicted_ratio real,
    pairs integer,
    throughput_ratio real, throughput_ratio_lo real, throughput_ratio_hi real,
    latency_p99_ratio real, latency_p99_ratio_lo real, latency_p99_ratio_hi real,
    baseline_tps real, changed_tps real,
    compared text,                        -- throughput or latency_p99: the subject of the verdict
    verdict text,                         -- better, worse, no difference, inconclusive
    pairs_needed integer,
    decision text,                        -- kept, rejected, offered, taken back, still earns
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
    proof_json text not null,             -- happened, sentence, facts
    checks_json text not null default '[]',
    facts_json text not null default '{}',
    primary key (drill_id, number)
);
