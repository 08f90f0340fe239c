package pgdyno.front;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** The configuration, a file of properties that pgdyno writes. What is not in it has the part's own default. */
final class Config {
    private final Properties properties = new Properties();

    Config(Path file) throws IOException {
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
    }

    /** A text that must be there. */
    String text(String name) {
        String value = properties.getProperty(name);
        if (value == null) {
            throw new IllegalArgumentException("the configuration lacks " + name);
        }
        return value;
    }

    /** A text, or null. */
    String optional(String name) {
        return properties.getProperty(name);
    }

    /** A number, or the default. */
    int number(String name, int byDefault) {
        String value = properties.getProperty(name);
        return value == null ? byDefault : Integer.parseInt(value);
    }

    /** True if the configuration has this name. */
    boolean has(String name) {
        return properties.containsKey(name);
    }
}
