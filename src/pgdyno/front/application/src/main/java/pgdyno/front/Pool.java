package pgdyno.front;

import java.sql.Connection;
import java.sql.SQLException;

/** A pool of connections: what is the same of all of them. Sizes and waits may be changed while it is used. */
interface Pool extends AutoCloseable {
    /** Its own name and version. */
    String title();

    /** A connection; waits while all are in use. */
    Connection borrow() throws SQLException;

    /** Ends a connection that was lent, and makes room for another one. */
    void discard(Connection connection) throws SQLException;

    int max();

    /** The most connections that are kept while nobody uses them. */
    int idleMax();

    /** Sets the most connections, and as many that are kept: a pool that keeps fewer makes new ones all the time. */
    void setMax(int max);

    /** How long a request waits for a connection, in milliseconds; -1: without limit. */
    long waitMsMax();

    void setWaitMsMax(long waitMs);

    int active();

    int idle();

    /** Threads that wait for a connection. */
    int waiting();

    @Override
    void close();
}
