package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.postgresql.PGConnection;
import org.postgresql.ds.PGSimpleDataSource;

/** Makes connections to PostgreSQL, and counts them: the same count for every pool. */
final class CountedSource extends PGSimpleDataSource {
    private static final long serialVersionUID = 1;
    private static final int CONNECT_S_MAX = 10;

    private final transient LongAdder made = new LongAdder();
    private transient volatile Set<PGConnection> current = noConnections();

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
        // One that is begun before a renewal may have the properties of that time.
        Set<PGConnection> began = current;
        Connection connection = super.getConnection(user, password);
        began.add(connection.unwrap(PGConnection.class));
        made.increment();
        return connection;
    }

    /** Makes all connections outdated that there are. */
    void renew() {
        current = noConnections();
    }

    /** True if this connection was made before the last renewal. */
    boolean isOutdated(Connection connection) throws SQLException {
        return !current.contains(connection.unwrap(PGConnection.class));
    }

    private static Set<PGConnection> noConnections() {
        return Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    }

    long made() {
        return made.sum();
    }
}
