package pgdyno.front;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.HikariPoolMXBean;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/** HikariCP: 10 connections, which it makes at once, and a wait of 30 s, unless it is set otherwise. */
final class HikariPool implements Pool {
    private final HikariDataSource pool;

    static {
        // It looks at most of what was changed, and at what was asked of it in vain, when it keeps house: by itself
        // each 30 s.
        System.setProperty("com.zaxxer.hikari.housekeeping.periodMs", "1000");
    }

    HikariPool(DataSource source, Config config) {
        HikariConfig settings = new HikariConfig();
        settings.setDataSource(source);
        settings.setPoolName("front");
        if (config.has("pool.max")) {
            settings.setMaximumPoolSize(config.number("pool.max", 0));
        }
        if (config.has("pool.wait_ms")) {
            settings.setConnectionTimeout(asTimeout(config.number("pool.wait_ms", 0)));
        }
        pool = new HikariDataSource(settings);
    }

    /** For HikariCP 0 is without limit, and 250 ms the least. */
    private static long asTimeout(long waitMs) {
        return waitMs < 0 ? 0 : Math.max(waitMs, 250);
    }

    private HikariPoolMXBean counts() {
        return pool.getHikariPoolMXBean();
    }

    @Override
    public String title() {
        return "HikariCP " + Versions.of("hikari");
    }

    @Override
    public Connection borrow() throws SQLException {
        return pool.getConnection();
    }

    @Override
    public void discard(Connection connection) throws SQLException {
        pool.evictConnection(connection);
    }

    @Override
    public int max() {
        return pool.getMaximumPoolSize();
    }

    @Override
    public int idleMax() {
        return pool.getMinimumIdle();
    }

    @Override
    public void setMax(int max) {
        boolean fewer = max < pool.getMaximumPoolSize();
        if (fewer) {
            pool.setMinimumIdle(max);
        }
        pool.setMaximumPoolSize(max);
        pool.setMinimumIdle(max);
        if (fewer) {
            // Those above the new size stay otherwise for as long as they are busy.
            counts().softEvictConnections();
        }
    }

    @Override
    public long waitMsMax() {
        long wait = pool.getConnectionTimeout();
        return wait >= Integer.MAX_VALUE ? -1 : wait;
    }

    @Override
    public void setWaitMsMax(long waitMs) {
        pool.setConnectionTimeout(asTimeout(waitMs));
    }

    @Override
    public int active() {
        return counts().getActiveConnections();
    }

    @Override
    public int idle() {
        return counts().getIdleConnections();
    }

    @Override
    public int waiting() {
        return counts().getThreadsAwaitingConnection();
    }

    @Override
    public void close() {
        pool.close();
    }
}
