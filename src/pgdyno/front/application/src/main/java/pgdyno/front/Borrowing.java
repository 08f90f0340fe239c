package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.LongAdder;
import org.postgresql.PGConnection;

/** The pool as requests use it: counts borrows, the time that they took, and those that got no connection. */
final class Borrowing implements Session.Lender {
    /** No connection could be had in time. */
    static final class NoConnection extends SQLException {
        private static final long serialVersionUID = 1;

        NoConnection(SQLException cause) {
            super(cause.getMessage(), cause.getSQLState(), cause);
        }
    }

    final Pool pool;
    private final CountedSource source;
    private final LongAdder borrowed = new LongAdder();
    private final LongAdder refused = new LongAdder();
    private final LongAdder waitNs = new LongAdder();
    private volatile int prepareThreshold = -1;
    private volatile boolean renewed;

    Borrowing(CountedSource source, Config config) {
        this.source = source;
        String kind = config.text("pool.kind");
        pool = switch (kind) {
            case "dbcp2" -> new Dbcp2Pool(source, config);
            case "tomcat-jdbc" -> new TomcatPool(source, config);
            case "hikari" -> new HikariPool(source, config);
            default -> throw new IllegalArgumentException("there is no pool " + kind);
        };
    }

    @Override
    public Connection borrow() throws SQLException {
        long began = System.nanoTime();
        try {
            Connection connection = pool.borrow();
            while (renewed && source.isOutdated(connection)) {
                pool.discard(connection);
                connection = pool.borrow();
            }
            borrowed.increment();
            return prepareThreshold < 0 ? connection : withThreshold(connection);
        } catch (SQLException problem) {
            refused.increment();
            throw new NoConnection(problem);
        } finally {
            waitNs.add(System.nanoTime() - began);
        }
    }

    /** Executions from which on a statement is kept prepared: of each connection when it is lent the next time. */
    void setPrepareThreshold(int executions) {
        prepareThreshold = executions;
    }

    /** Whether batches of inserts are rewritten, which a driver decides for a connection when it makes it. */
    void setRewriteBatchedInserts(int wanted) {
        source.setReWriteBatchedInserts(wanted != 0);
        renew();
    }

    /** Replaces each connection that there is when it is to be lent. */
    void renew() {
        source.renew();
        renewed = true;
    }

    /** What was kept prepared under another threshold would stay so; the driver sees that it is gone. */
    private Connection withThreshold(Connection connection) throws SQLException {
        PGConnection driver = connection.unwrap(PGConnection.class);
        int wanted = prepareThreshold;
        if (driver.getPrepareThreshold() != wanted) {
            driver.setPrepareThreshold(wanted);
            try (Statement statement = connection.createStatement()) {
                statement.execute("deallocate all");
            }
        }
        return connection;
    }

    /** The pool's gauges and counts, as fields of JSON. */
    void write(Json json) {
        json.number("max", pool.max()).number("idle_max", pool.idleMax());
        json.number("wait_ms_max", pool.waitMsMax());
        json.number("active", pool.active()).number("idle", pool.idle());
        json.number("waiting", pool.waiting()).number("created", source.made());
        json.number("borrowed", borrowed.sum()).number("refused", refused.sum());
        json.number("wait_ns", waitNs.sum());
    }
}
