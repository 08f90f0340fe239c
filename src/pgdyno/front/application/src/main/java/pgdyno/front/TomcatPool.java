package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;
import org.apache.tomcat.jdbc.pool.DataSource;
import org.apache.tomcat.jdbc.pool.PooledConnection;
import org.apache.tomcat.jdbc.pool.PoolProperties;

/** Tomcat JDBC: 100 connections, and a wait of 30 s, unless it is set otherwise. */
final class TomcatPool implements Pool {
    private static final int INITIAL = 10;

    private final DataSource pool;

    TomcatPool(javax.sql.DataSource source, Config config) {
        PoolProperties properties = new PoolProperties();
        properties.setDataSource(source);
        properties.setJmxEnabled(false);
        // It hands the next borrower a connection as it was returned.
        properties.setJdbcInterceptors("ConnectionState");
        properties.setRollbackOnReturn(true);
        if (config.has("pool.max")) {
            int max = config.number("pool.max", 0);
            properties.setMaxActive(max);
            properties.setMaxIdle(max);
            properties.setInitialSize(Math.min(INITIAL, max));
            properties.setMinIdle(Math.min(INITIAL, max));
        }
        pool = new DataSource(properties);
        if (config.has("pool.wait_ms")) {
            setWaitMsMax(config.number("pool.wait_ms", 0));
        }
    }

    @Override
    public String title() {
        return "Tomcat JDBC " + Versions.of("tomcat");
    }

    @Override
    public Connection borrow() throws SQLException {
        return pool.getConnection();
    }

    @Override
    public void discard(Connection connection) throws SQLException {
        try (connection) {
            connection.unwrap(PooledConnection.class).setDiscarded(true);
        }
    }

    @Override
    public int max() {
        return pool.getMaxActive();
    }

    @Override
    public int idleMax() {
        return pool.getMaxIdle();
    }

    @Override
    public void setMax(int max) {
        boolean fewer = max < pool.getMaxActive();
        pool.setMinIdle(Math.min(pool.getMinIdle(), max));
        pool.setMaxIdle(max);
        pool.setMaxActive(max);
        if (fewer) {
            // Those above the new size, at once or when they are returned.
            pool.purgeOnReturn();
            pool.purge();
        }
    }

    @Override
    public long waitMsMax() {
        int wait = pool.getMaxWait();
        return wait <= 0 || wait == Integer.MAX_VALUE ? -1 : wait;
    }

    @Override
    public void setWaitMsMax(long waitMs) {
        pool.setMaxWait(waitMs < 0 ? Integer.MAX_VALUE : (int) waitMs);
    }

    @Override
    public int active() {
        return pool.getActive();
    }

    @Override
    public int idle() {
        return pool.getIdle();
    }

    @Override
    public int waiting() {
        return pool.getWaitCount();
    }

    @Override
    public void close() {
        pool.close(true);
    }
}
