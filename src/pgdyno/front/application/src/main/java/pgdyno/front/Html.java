package pgdyno.front;

/** HTML, as little of it as a page needs. */
final class Html {
    private Html() {}

    /** A page with this text in it, of which nothing is markup. */
    static String page(String title, String text) {
        return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(title)
            + "</title></head><body><h1>" + escaped(title) + "</h1><pre>" + escaped(text)
            + "</pre></body></html>\n";
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }
}
