package pgdyno.front;

import jakarta.servlet.http.HttpServletRequest;
import java.util.concurrent.ThreadLocalRandom;

/** Parameters of a request. One that is missing is chosen at random, so that plain URLs make a load. */
final class Parameters {
    /** A parameter cannot be used. */
    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1;

        Wrong(String message) {
            super(message);
        }
    }

    private final HttpServletRequest request;

    Parameters(HttpServletRequest request) {
        this.request = request;
    }

    /** A whole number from {@code least} to {@code most}. */
    int number(String name, int least, int most) {
        String text = request.getParameter(name);
        if (text == null) {
            return random(least, most);
        }
        try {
            int value = Integer.parseInt(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException problem) {
            // Said below.
        }
        throw new Wrong(name + " must be a whole number from " + least + " to " + most);
    }

    /** True if the request gives it. */
    boolean has(String name) {
        return request.getParameter(name) != null;
    }

    static int random(int least, int most) {
        return ThreadLocalRandom.current().nextInt(least, most + 1);
    }
}
