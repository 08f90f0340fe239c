package pgdyno.front;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Set;

/** Answers the requests of one page, each with a Server-Timing header: time in the pool, the database, and the rest. */
final class PageServlet extends HttpServlet {
    private static final long serialVersionUID = 1;
    private static final Set<String> METHODS = Set.of("GET", "HEAD", "POST");

    private final transient Page page;
    private final transient Borrowing borrowing;

    PageServlet(Page page, Borrowing borrowing) {
        this.page = page;
        this.borrowing = borrowing;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (!METHODS.contains(request.getMethod())) {
            response.setHeader("Allow", "GET, HEAD, POST");
            response.setStatus(HttpServletResponse.SC_METHOD_NOT_ALLOWED);
            return;
        }
        long began = System.nanoTime();
        Session session = new Session(borrowing);
        int status = HttpServletResponse.SC_OK;
        String text;
        try (session) {
            text = page.work.answer(session, new Parameters(request));
        } catch (Parameters.Wrong problem) {
            status = HttpServletResponse.SC_BAD_REQUEST;
            text = problem.getMessage();
        } catch (Borrowing.NoConnection problem) {
            status = HttpServletResponse.SC_SERVICE_UNAVAILABLE;
            text = "no connection: " + problem.getMessage();
        } catch (SQLException problem) {
            status = HttpServletResponse.SC_INTERNAL_SERVER_ERROR;
            text = problem.getSQLState() + ": " + problem.getMessage();
        }
        byte[] body = Html.page(page.title, text).getBytes(StandardCharsets.UTF_8);
        long tookNs = System.nanoTime() - began;
        page.count(session, tookNs, status != HttpServletResponse.SC_OK);
        response.setStatus(status);
        response.setHeader("Server-Timing", timing(session, tookNs));
        response.setContentType("text/html;charset=utf-8");
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }

    private static String timing(Session session, long tookNs) {
        long restNs = tookNs - session.poolNs() - session.databaseNs();
        return String.format(Locale.ROOT, "pool;dur=%s, db;dur=%s, app;dur=%s",
            ms(session.poolNs()), ms(session.databaseNs()), ms(restNs));
    }

    private static String ms(long ns) {
        long us = ns / 1000;
        return us / 1000 + "." + String.valueOf(1000 + us % 1000).substring(1);
    }
}
