package pgdyno.front;

/** Writes one JSON object: numbers, texts, and objects within. */
final class Json {
    /** What writes an object within. */
    interface Fields {
        void write(Json json);
    }

    private final StringBuilder text = new StringBuilder("{");

    Json number(String name, long value) {
        name(name).append(value);
        return this;
    }

    Json text(String name, String value) {
        quote(name(name), value);
        return this;
    }

    Json object(String name, Fields fields) {
        Json within = new Json();
        fields.write(within);
        name(name).append(within);
        return this;
    }

    private StringBuilder name(String name) {
        if (text.length() > 1) {
            text.append(',');
        }
        quote(text, name);
        return text.append(':');
    }

    private static void quote(StringBuilder to, String value) {
        to.append('"');
        for (char each : value.toCharArray()) {
            if (each == '"' || each == '\\') {
                to.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                to.append(String.format("\\u%04x", (int) each));
            } else {
                to.append(each);
            }
        }
        to.append('"');
    }

    @Override
    public String toString() {
        return text + "}";
    }
}
