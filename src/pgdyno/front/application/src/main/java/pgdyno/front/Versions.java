package pgdyno.front;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** Versions of the parts in this jar. */
final class Versions {
    private static final Properties VERSIONS = read();

    private Versions() {}

    static String of(String part) {
        return VERSIONS.getProperty(part);
    }

    private static Properties read() {
        Properties properties = new Properties();
        try (InputStream file = Versions.class.getResourceAsStream("/versions.properties")) {
            properties.load(file);
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
        return properties;
    }
}
