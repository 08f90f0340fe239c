package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.atomic.LongAdder;
import org.postgresql.core.BaseConnection;
import org.postgresql.ds.PGSimpleDataSource;

/** Makes connections to PostgreSQL, and counts them: the same count for every pool. */
final class CountedSource extends PGSimpleDataSource {
    private static final long serialVersionUID = 1;
    private static final int CONNECT_S_MAX = 10;

    private final transient LongAdder made = new LongAdder();

    CountedSource(Config config) {
        setServerNames(new String[] {config.text("host")});
        setPortNumbers(new int[] {config.number("database.port", 5432)});
        setDatabaseName(config.text("database"));
        setUser(config.text("user"));
        setPassword(config.optional("password"));
        setApplicationName("pgdyno/front");
        setConnectTimeout(CONNECT_S_MAX);
        if (config.has("sslmode")) {
            setSslmode(config.text("sslmode"));
        }
        if (config.has("sslrootcert")) {
            setSslRootCert(config.text("sslrootcert"));
        }
        if (config.has("options")) {
            setOptions(config.text("options"));
        }
        setReWriteBatchedInserts(Boolean.parseBoolean(config.optional("rewrite_batched_inserts")));
        if (config.has("prepare_threshold")) {
            setPrepareThreshold(config.number("prepare_threshold", 5));
        }
    }

    @Override
    public Connection getConnection(String user, String password) throws SQLException {
        Connection connection = super.getConnection(user, password);
        made.increment();
        return connection;
    }

    /** True if the driver treats batches on this connection otherwise than on new ones. */
    boolean isOutdated(Connection connection) throws SQLException {
        return connection.unwrap(BaseConnection.class).getQueryExecutor().isReWriteBatchedInsertsEnabled()
            != getReWriteBatchedInserts();
    }

    long made() {
        return made.sum();
    }
}
