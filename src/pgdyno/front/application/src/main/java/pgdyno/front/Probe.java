package pgdyno.front;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntConsumer;

/**
 * Answers pgdyno on a Unix socket, each line with a line of JSON that is stamped with {@code System.nanoTime}, on Linux
 * the monotonic clock that pgdyno reads too.
 *
 * <pre>
 *   describe          address, pages, parts
 *   read              all gauges and counts
 *   set NAME NUMBER   changes a limit, and reads
 *   renew             replaces each connection of the pool when it is to be lent, and reads
 * </pre>
 */
final class Probe {
    private final Web web;
    private final Borrowing borrowing;
    private final List<Page> pages;
    private final Map<String, IntConsumer> limits = new TreeMap<>();

    Probe(Web web, Borrowing borrowing, List<Page> pages) {
        this.web = web;
        this.borrowing = borrowing;
        this.pages = pages;
        limits.put("pool.max", borrowing.pool::setMax);
        limits.put("pool.wait_ms", borrowing.pool::setWaitMsMax);
        limits.put("driver.prepare_threshold", borrowing::setPrepareThreshold);
        limits.put("driver.rewrite_batched_inserts", borrowing::setRewriteBatchedInserts);
        limits.put("connector.threads", web::setThreads);
        limits.put("connector.connections", web::setConnectionsMax);
        limits.put("connector.keepalive_requests", web::setKeepAliveRequests);
        limits.put("connector.keepalive_ms", web::setKeepAliveMs);
    }

    /** Listens, and answers in threads of its own. */
    void start(Path socket) throws IOException {
        ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket));
        begin(() -> {
            while (true) {
                SocketChannel asker = listener.accept();
                begin(() -> answerAll(asker));
            }
        });
    }

    private interface Task {
        void run() throws IOException;
    }

    private static void begin(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException problem) {
                // Whoever asked has gone.
            }
        }, "probe");
        thread.setDaemon(true);
        thread.start();
    }

    private void answerAll(SocketChannel asker) throws IOException {
        try (asker;
                BufferedReader lines = new BufferedReader(Channels.newReader(asker, StandardCharsets.UTF_8));
                Writer answers = Channels.newWriter(asker, StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.write(answer(line.strip().split(" +")) + "\n");
                answers.flush();
            }
        }
    }

    private String answer(String... words) {
        try {
            return switch (words[0]) {
                case "describe" -> describe();
                case "read" -> read();
                case "set" -> set(words);
                case "renew" -> renew();
                default -> wrong("unknown: " + words[0]);
            };
        } catch (RuntimeException problem) {
            return wrong(problem.toString());
        }
    }

    private static String wrong(String message) {
        return new Json().text("error", message).toString();
    }

    private String set(String... words) {
        IntConsumer limit = words.length == 3 ? limits.get(words[1]) : null;
        if (limit == null) {
            return wrong("set takes a number, and one of " + limits.keySet());
        }
        limit.accept(Integer.parseInt(words[2]));
        return read();
    }

    private String renew() {
        borrowing.renew();
        return read();
    }

    private String describe() {
        return new Json()
            .text("url", web.url())
            .text("pool", borrowing.pool.title())
            .text("tomcat", Versions.of("tomcat"))
            .text("pgjdbc", Versions.of("pgjdbc"))
            .text("java", System.getProperty("java.version"))
            .object("pages", json -> pages.forEach(page -> json.text(page.path, page.title)))
            .toString();
    }

    private String read() {
        return new Json()
            .number("at_ns", System.nanoTime())
            .object("pool", borrowing::write)
            .object("connector", web::write)
            .object("jvm", Jvm::write)
            .object("pages", json -> pages.forEach(page -> json.object(page.path, page::write)))
            .toString();
    }
}
