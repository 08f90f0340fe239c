package pgdyno.front;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The connection of one request, from the pool, and the time that the request spent in the pool and in the database.
 */
final class Session implements AutoCloseable {
    /** Makes a value of a row. */
    interface Row<T> {
        T of(ResultSet row) throws SQLException;
    }

    /** Where the connection comes from. */
    interface Lender {
        Connection borrow() throws SQLException;
    }

    private static final Queue<Connection> LEAKED = new ConcurrentLinkedQueue<>();

    private final Lender lender;
    private Connection connection;
    private boolean inTransaction;
    private long poolNs;
    private long databaseNs;
    private int statements;
    private int batchedRows;
    private int kept;

    Session(Lender lender) {
        this.lender = lender;
    }

    long poolNs() {
        return poolNs;
    }

    long databaseNs() {
        return databaseNs;
    }

    int statements() {
        return statements;
    }

    /** Rows of all batches, which are one statement each. */
    int batchedRows() {
        return batchedRows;
    }

    /** Begins a transaction; without it each statement is one. */
    void begin() throws SQLException {
        connection().setAutoCommit(false);
        inTransaction = true;
    }

    void commit() throws SQLException {
        long began = System.nanoTime();
        try {
            connection.commit();
            inTransaction = false;
        } finally {
            databaseNs += System.nanoTime() - began;
        }
    }

    <T> List<T> query(String sql, Row<T> row, Object... values) throws SQLException {
        Connection used = connection();
        long began = System.nanoTime();
        statements++;
        try (PreparedStatement statement = used.prepareStatement(sql)) {
            bind(statement, values);
            List<T> found = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(row.of(rows));
                }
            }
            return found;
        } finally {
            databaseNs += System.nanoTime() - began;
        }
    }

    /** The first row, or null. */
    <T> T first(String sql, Row<T> row, Object... values) throws SQLException {
        List<T> found = query(sql, row, values);
        return found.isEmpty() ? null : found.get(0);
    }

    int update(String sql, Object... values) throws SQLException {
        Connection used = connection();
        long began = System.nanoTime();
        statements++;
        try (PreparedStatement statement = used.prepareStatement(sql)) {
            bind(statement, values);
            return statement.executeUpdate();
        } finally {
            databaseNs += System.nanoTime() - began;
        }
    }

    /** Inserts rows as a batch: the driver sends them one behind the other, and waits once for the answers. */
    void insert(String sql, List<Object[]> rows) throws SQLException {
        Connection used = connection();
        long began = System.nanoTime();
        statements++;
        batchedRows += rows.size();
        try (PreparedStatement statement = used.prepareStatement(sql)) {
            for (Object[] values : rows) {
                bind(statement, values);
                statement.addBatch();
            }
            statement.executeBatch();
        } finally {
            databaseNs += System.nanoTime() - began;
        }
    }

    /** Returns the connection to the pool; a transaction that was not committed is rolled back. */
    @Override
    public void close() throws SQLException {
        if (connection == null) {
            return;
        }
        long began = System.nanoTime();
        try (Connection returned = connection) {
            if (inTransaction) {
                returned.rollback();
            }
            if (!returned.getAutoCommit()) {
                returned.setAutoCommit(true);
            }
            databaseNs += System.nanoTime() - began;
            began = System.nanoTime();
        } finally {
            connection = null;
            poolNs += System.nanoTime() - began;
        }
    }

    /** The fault of an application that forgets to return its connection: nobody will. */
    void leak() throws SQLException {
        LEAKED.add(connection());
        connection = null;
        kept++;
    }

    /** Connections that this request borrowed and never returned. */
    int kept() {
        return kept;
    }

    private Connection connection() throws SQLException {
        if (connection == null) {
            long began = System.nanoTime();
            try {
                connection = lender.borrow();
            } finally {
                poolNs += System.nanoTime() - began;
            }
        }
        return connection;
    }

    private static void bind(PreparedStatement statement, Object... values) throws SQLException {
        for (int at = 0; at < values.length; at++) {
            statement.setObject(at + 1, values[at]);
        }
    }
}
