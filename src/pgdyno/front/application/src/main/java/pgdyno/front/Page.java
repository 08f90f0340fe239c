package pgdyno.front;

import java.sql.SQLException;
import java.util.concurrent.atomic.LongAdder;

/** A page: its path, what it does, and counts of its requests. */
final class Page {
    /** Answers a request with the text of the page. */
    interface Work {
        String answer(Session session, Parameters parameters) throws SQLException;
    }

    final String path;
    final String title;
    final Work work;
    private final LongAdder requests = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final LongAdder tookNs = new LongAdder();
    private final LongAdder poolNs = new LongAdder();
    private final LongAdder databaseNs = new LongAdder();
    private final LongAdder statements = new LongAdder();
    private final LongAdder batchedRows = new LongAdder();
    private final LongAdder kept = new LongAdder();

    Page(String path, String title, Work work) {
        this.path = path;
        this.title = title;
        this.work = work;
    }

    void count(Session session, long tookNs, boolean failed) {
        requests.increment();
        if (failed) {
            this.failed.increment();
        }
        this.tookNs.add(tookNs);
        poolNs.add(session.poolNs());
        databaseNs.add(session.databaseNs());
        statements.add(session.statements());
        batchedRows.add(session.batchedRows());
        kept.add(session.kept());
    }

    void write(Json json) {
        json.number("requests", requests.sum()).number("failed", failed.sum());
        json.number("took_ns", tookNs.sum()).number("pool_ns", poolNs.sum());
        json.number("database_ns", databaseNs.sum()).number("statements", statements.sum());
        json.number("batched_rows", batchedRows.sum()).number("kept", kept.sum());
    }
}
