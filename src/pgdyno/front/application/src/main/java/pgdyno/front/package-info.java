/**
 * A small order shop on embedded Tomcat, which reaches PostgreSQL through a pool: the front end that pgdyno puts
 * before a server, with a probe that reads its counts and changes its limits while it runs.
 *
 * <p>{@code Main} puts it together. {@code Shop} has the pages and their statements, {@code PageServlet} answers
 * requests with them, {@code Session} is the connection of one request and measures what it waits for.
 * {@code Pool} is one of three pools, {@code Web} the connector, {@code Probe} the socket that pgdyno asks.
 */
package pgdyno.front;
