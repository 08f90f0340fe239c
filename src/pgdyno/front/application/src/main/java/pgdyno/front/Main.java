package pgdyno.front;

import java.nio.file.Path;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Starts the front end with a file of properties; ready when the probe answers, which is the last to begin. */
public final class Main {
    private static final int FAILED = 3;

    private Main() {}

    /** Runs until a signal ends it. */
    public static void main(String[] arguments) {
        System.setProperty("java.util.logging.SimpleFormatter.format", "%4$s: %5$s%6$s%n");
        Logger.getLogger("").setLevel(Level.WARNING);
        try {
            run(Path.of(arguments[0]));
        } catch (Exception problem) {
            problem.printStackTrace();
            System.err.println("front: " + said(problem));
            System.exit(FAILED);
        }
    }

    private static void run(Path file) throws Exception {
        Config config = new Config(file);
        Path directory = file.toAbsolutePath().getParent();
        List<Page> pages = new Shop(new CountedSource(config)::getConnection).pages();
        Borrowing borrowing = new Borrowing(new CountedSource(config), config);
        Web web = new Web(config, directory, pages, borrowing);
        web.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(web, borrowing)));
        new Probe(web, borrowing, pages).start(directory.resolve("probe"));
        Thread.currentThread().join();
    }

    private static void end(Web web, Borrowing borrowing) {
        try {
            web.stop();
        } catch (Exception problem) {
            problem.printStackTrace();
        }
        borrowing.pool.close();
    }

    /** The innermost message: what a pool says around it is the same for each problem. */
    private static String said(Throwable problem) {
        Throwable innermost = problem;
        while (innermost.getCause() != null) {
            innermost = innermost.getCause();
        }
        String message = innermost.getMessage();
        return message == null ? innermost.toString() : message.lines().findFirst().orElse("");
    }
}
