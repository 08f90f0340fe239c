package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import javax.sql.DataSource;
import org.apache.commons.dbcp2.BasicDataSource;
import org.apache.commons.dbcp2.ConnectionFactory;
import org.apache.commons.dbcp2.DataSourceConnectionFactory;
import org.apache.commons.dbcp2.PoolableConnection;
import org.apache.commons.dbcp2.PoolableConnectionFactory;
import org.apache.commons.pool2.impl.AbandonedConfig;
import org.apache.commons.pool2.impl.GenericObjectPool;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;

/** Commons DBCP2: 8 connections, and a wait without limit, unless it is set otherwise. */
final class Dbcp2Pool implements Pool {
    /** Lets the pool within be seen, which alone knows who waits. */
    private static final class Open extends BasicDataSource {
        private final DataSource source;

        Open(DataSource source) {
            this.source = source;
        }

        @Override
        protected ConnectionFactory createConnectionFactory() {
            return new DataSourceConnectionFactory(source);
        }

        void closeIdle() {
            GenericObjectPool<?> within = getConnectionPool();
            if (within != null) {
                within.clear();
            }
        }

        @Override
        protected GenericObjectPool<PoolableConnection> createObjectPool(
                PoolableConnectionFactory factory,
                GenericObjectPoolConfig<PoolableConnection> config,
                AbandonedConfig abandoned) {
            return new Shrinking(factory, config, abandoned);
        }

        int waiting() {
            GenericObjectPool<?> within = getConnectionPool();
            return within == null ? 0 : within.getNumWaiters();
        }
    }

    /** Ends connections above its size when they are returned; otherwise it lends them for as long as it is busy. */
    private static final class Shrinking extends GenericObjectPool<PoolableConnection> {
        Shrinking(
                PoolableConnectionFactory factory,
                GenericObjectPoolConfig<PoolableConnection> config,
                AbandonedConfig abandoned) {
            super(factory, config, abandoned);
        }

        @Override
        public void returnObject(PoolableConnection connection) {
            if (getMaxTotal() >= 0 && getNumActive() + getNumIdle() > getMaxTotal()) {
                try {
                    invalidateObject(connection);
                } catch (Exception problem) {
                    throw new IllegalStateException(problem);
                }
            } else {
                super.returnObject(connection);
            }
        }
    }

    private final Open pool;

    Dbcp2Pool(DataSource source, Config config) {
        pool = new Open(source);
        if (config.has("pool.max")) {
            setMax(config.number("pool.max", 0));
        }
        if (config.has("pool.wait_ms")) {
            setWaitMsMax(config.number("pool.wait_ms", 0));
        }
    }

    @Override
    public String title() {
        return "Commons DBCP2 " + Versions.of("dbcp2");
    }

    @Override
    public Connection borrow() throws SQLException {
        return pool.getConnection();
    }

    @Override
    public void discard(Connection connection) throws SQLException {
        pool.invalidateConnection(connection);
    }

    @Override
    public int max() {
        return pool.getMaxTotal();
    }

    @Override
    public int idleMax() {
        return pool.getMaxIdle();
    }

    @Override
    public void setMax(int max) {
        boolean fewer = max < pool.getMaxTotal();
        pool.setMaxIdle(max);
        pool.setMaxTotal(max);
        if (fewer) {
            // It lends those that it has, however many they are.
            pool.closeIdle();
        }
    }

    @Override
    public long waitMsMax() {
        Duration wait = pool.getMaxWaitDuration();
        return wait.isNegative() ? -1 : wait.toMillis();
    }

    @Override
    public void setWaitMsMax(long waitMs) {
        pool.setMaxWait(Duration.ofMillis(waitMs));
    }

    @Override
    public int active() {
        return pool.getNumActive();
    }

    @Override
    public int idle() {
        return pool.getNumIdle();
    }

    @Override
    public int waiting() {
        return pool.waiting();
    }

    @Override
    public void close() {
        try {
            pool.close();
        } catch (SQLException problem) {
            throw new IllegalStateException(problem);
        }
    }
}
