package pgdyno.front;

import java.net.BindException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Executor;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http11.Http11NioProtocol;
import org.apache.tomcat.util.threads.ThreadPoolExecutor;

/** Embedded Tomcat with one connector: its limits, which may be changed while it runs, and its gauges. */
final class Web {
    private static final String ADDRESS = "127.0.0.1";

    private final Tomcat tomcat = new Tomcat();
    private final Connector connector;
    private final Http11NioProtocol protocol;

    Web(Config config, Path directory, List<Page> pages, Borrowing borrowing) {
        tomcat.setBaseDir(directory.toString());
        tomcat.setPort(config.number("port", 0));
        connector = tomcat.getConnector();
        connector.setThrowOnFailure(true);
        connector.setProperty("address", ADDRESS);
        protocol = (Http11NioProtocol) connector.getProtocolHandler();
        if (config.has("threads")) {
            setThreads(config.number("threads", 0));
        }
        if (config.has("connections")) {
            setConnectionsMax(config.number("connections", 0));
        }
        if (config.has("keepalive_requests")) {
            protocol.setMaxKeepAliveRequests(config.number("keepalive_requests", 0));
        }
        Context context = tomcat.addContext("", directory.toString());
        for (Page page : pages) {
            Tomcat.addServlet(context, page.path, new PageServlet(page, borrowing));
            // An empty pattern is the root alone; "/" would be everything.
            context.addServletMappingDecoded(page.path.equals("/") ? "" : page.path, page.path);
        }
    }

    void start() throws LifecycleException {
        try {
            tomcat.start();
        } catch (LifecycleException problem) {
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                if (cause instanceof BindException) {
                    throw new IllegalStateException(
                        "cannot listen on " + ADDRESS + ":" + connector.getPort() + ": " + cause.getMessage());
                }
            }
            throw problem;
        }
    }

    void stop() throws LifecycleException {
        tomcat.stop();
    }

    String url() {
        return "http://" + ADDRESS + ":" + connector.getLocalPort() + "/";
    }

    /** Threads that are kept stay below the most there may be. */
    void setThreads(int threads) {
        protocol.setMinSpareThreads(Math.min(protocol.getMinSpareThreads(), threads));
        protocol.setMaxThreads(threads);
    }

    void setKeepAliveRequests(int requests) {
        protocol.setMaxKeepAliveRequests(requests);
    }

    void setKeepAliveMs(int timeoutMs) {
        protocol.setKeepAliveTimeout(timeoutMs);
    }

    void setConnectionsMax(int connections) {
        protocol.setMaxConnections(connections);
    }

    void write(Json json) {
        json.number("threads_max", protocol.getMaxThreads());
        Executor executor = protocol.getExecutor();
        if (executor instanceof ThreadPoolExecutor threads) {
            json.number("threads", threads.getPoolSize()).number("busy", threads.getActiveCount());
            json.number("queue", threads.getQueue().size());
        }
        json.number("connections", protocol.getConnectionCount());
        json.number("connections_max", protocol.getMaxConnections());
        json.number("keepalive_requests_max", protocol.getMaxKeepAliveRequests());
        json.number("keepalive_ms", protocol.getKeepAliveTimeout());
    }
}
